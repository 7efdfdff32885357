"""The scripts of the paper read small made-up files here, not the real ones."""

import pytest
from paper._diabetes import people_data
from paper._models import images, table
from paper._planes import _trained

import made_up


@pytest.fixture(scope="session")
def made_up_files(tmp_path_factory):
    """A folder of made-up data files, and what the registry should say of them."""
    folder = tmp_path_factory.mktemp("data")
    return folder, *made_up.write(folder)


@pytest.fixture(scope="module")
def small_data(made_up_files):
    """``GPEC_DATA`` names the folder of made-up files, and no script remembers others."""
    kept = (people_data, images, table, _trained)
    for one in kept:
        one.cache_clear()
    with made_up.in_use(*made_up_files) as folder:
        yield folder
    for one in kept:
        one.cache_clear()
