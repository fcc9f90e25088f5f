"""Each kind of tokenizer, for the tests of texts that hold for all of them."""

import pytest

from attnfaith.text.encoder import TextEncoder
from tests.helpers.odd_texts import KINDS, AnyModel


@pytest.fixture(scope="module", params=KINDS)
def kind(request, tmp_path_factory):
    """The kind's name, and its tokenizer at work."""
    return request.param, TextEncoder(KINDS[request.param](tmp_path_factory.mktemp("vocabulary")), AnyModel())
