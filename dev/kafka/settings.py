"""The settings of a Kafka of one node, broker and controller in one (KRaft). Pure."""

from pathlib import Path

HERE = "127.0.0.1"


def server(
    folder: Path, port: int, controller_port: int, through: tuple[int, int] | None = None
) -> str:
    """server.properties. Small: a cluster of one node has nobody to replicate to.

    Args:
        through: a second port, and the port of the proxy in front of it, which is what clients that
            come this way are told to go on with.
    """
    second, proxy = through or (0, 0)
    more = "" if through is None else f",THROUGH://{HERE}:{second}"
    advertised = "" if through is None else f",THROUGH://{HERE}:{proxy}"
    told = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HERE}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HERE}:{port},CONTROLLER://{HERE}:{controller_port}{more}",
        "advertised.listeners": f"PLAINTEXT://{HERE}:{port}{advertised}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        "THROUGH:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
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
