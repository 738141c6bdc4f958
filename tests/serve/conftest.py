from tests.cli.conftest import made_home as made_home
from tests.cli.conftest import terminal as terminal
