from tests.dev.conftest import no_hurry as no_hurry
