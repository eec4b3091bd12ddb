from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from robust_attn.data.images import digits, image_folder
from robust_attn.models.digits import digit_images
from robust_attn.types import UserError


def test_digits_are_held_out_ones_in_their_own_size():
    found = digits(3, (1, 8, 8))
    held_out = digit_images()[0][-297:]
    assert torch.equal(found, held_out[[0, 99, 198]])


def test_digits_are_enlarged_and_repeated_over_channels():
    found = digits(2, (3, 32, 16))
    assert found.shape == (2, 3, 32, 16)
    assert torch.equal(found[:, 0], found[:, 2])
    assert float(found.abs().max()) <= 1
    assert float(found.std()) > 0.1


def test_more_digits_than_there_are_is_refused():
    assert digits(297, (1, 8, 8)).shape[0] == 297
    for samples in (298, 0):
        with pytest.raises(UserError, match=f"there are 297 held-out digits, but {samples} samples"):
            digits(samples, (1, 8, 8))


@pytest.fixture
def folder(tmp_path):
    for index, grey in enumerate((0, 51, 102, 255)):
        Image.fromarray(np.full((5, 7, 3), (grey, 0, 255), dtype=np.uint8)).save(tmp_path / f"{index}.png")
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


def test_images_are_taken_in_order_resized_and_scaled(folder):
    found = image_folder(folder, 2, (3, 4, 6))
    assert found.shape == (2, 3, 4, 6)
    torch.testing.assert_close(found[:, 0], torch.tensor([-1.0, -0.2])[:, None, None].expand(2, 4, 6))  # 0 and 102
    torch.testing.assert_close(found[:, 1:].mean((0, 2, 3)), torch.tensor([-1.0, 1.0]))


def test_one_channel_is_grey(folder):
    assert image_folder(folder, 4, (1, 8, 8)).shape == (4, 1, 8, 8)


def test_folders_that_cannot_serve_are_refused(folder, tmp_path):
    with pytest.raises(UserError, match="there are 4 images"):
        image_folder(folder, 5, (1, 8, 8))
    with pytest.raises(UserError, match="No such file"):
        image_folder(tmp_path / "absent", 1, (1, 8, 8))
    with pytest.raises(UserError, match="1 or 3 channels"):
        image_folder(folder, 1, (4, 8, 8))
    (folder / "0.png").write_bytes(b"broken")
    with pytest.raises(UserError, match=r"0\.png is not a readable image"):
        image_folder(folder, 1, (1, 8, 8))
