"""The settings of a Kafka of one node, broker and controller in one (KRaft). Pure."""

from pathlib import Path

HERE = "127.0.0.1"


def server(folder: Path, port: int, controller_port: int) -> str:
    """server.properties. Small: a cluster of one node has nobody to replicate to."""
    told = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HERE}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HERE}:{port},CONTROLLER://{HERE}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HERE}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(folder / "data"),
        # A topic that was deleted must not come back by being asked for.
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        **{
            f"{topic}.{setting}": "1"
            for topic, settings in {
                "offsets.topic": ("num.partitions", "replication.factor"),
                "transaction.state.log": ("num.partitions", "replication.factor", "min.isr"),
            }.items()
            for setting in settings
        },
    }
    return "".join(f"{key}={value}\n" for key, value in told.items())
