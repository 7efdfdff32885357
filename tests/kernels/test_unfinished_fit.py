"""A composed kernel one part of which could not be fitted."""

import numpy as np
import pytest

from gpec.errors import InputError, NotFittedError
from gpec.kernels import RBF, WEG, Product, Sum

ROWS = np.random.default_rng(0).normal(size=(6, 2))


@pytest.mark.parametrize("kind", [Sum, Product])
@pytest.mark.parametrize("parts", [(RBF(1.0), WEG()), (WEG(), RBF(1.0))])
def test_it_is_not_fitted(kind, parts):
    kernel = kind(*parts)
    with pytest.raises(InputError, match="WEG needs boundary points"):
        kernel.fit(None, ROWS)
    with pytest.raises(NotFittedError, match=f"This {kind.__name__} kernel is not fitted yet"):
        kernel.gram(ROWS)
