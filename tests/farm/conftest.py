import pytest


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """A scheduler with two workers, for all tests."""
    pytest.importorskip("distributed", reason="needs the extra farm")
    from farm_tools import Cluster

    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.stop()
