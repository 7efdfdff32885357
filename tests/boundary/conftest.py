"""Failed assertions of the shared helpers are shown in full."""

import pytest

pytest.register_assert_rewrite("boundary_helpers")
