import pytest

pytest.importorskip("distributed", reason="needs the extra farm")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A scheduler with two workers, for all tests that do not harm it."""
    from farm_tools import Cluster

    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()
