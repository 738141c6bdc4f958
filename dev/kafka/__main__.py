"""python -m dev.kafka [--folder FOLDER]

Runs a Kafka broker in the foreground until SIGTERM or Ctrl-C, and prints its address. Tethered, it
ends with its standard input, and takes `stop` and `start` from there, a line each.
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import FrameType

from dev.installing import InstallFailed
from dev.kafka.broker import Broker, BrokerFailed


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m dev.kafka", description=__doc__)
    options.add_argument("--folder", type=Path, help="default: a temporary one")
    options.add_argument("--tethered", action="store_true", help="see above")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, _leave)
    signal.signal(signal.SIGINT, _leave)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="kafka-") as temporary,
            Broker(given.folder or Path(temporary)) as broker,
        ):
            print(broker.address, flush=True)
            if given.tethered:
                _obey(broker)
                return 0
            while broker.runs:
                time.sleep(0.5)
            print(f"Kafka has ended; see {broker.log}", file=sys.stderr)
    except (InstallFailed, BrokerFailed) as error:
        print(error, file=sys.stderr)
    return 1


def _obey(broker: Broker) -> None:
    for order in sys.stdin:
        if order.strip() == "stop":
            broker.stop()
        else:
            broker.start()
        print(broker.address, flush=True)


def _leave(_number: int, _frame: FrameType | None) -> None:
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
