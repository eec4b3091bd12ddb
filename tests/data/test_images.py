from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from robust_attn.data.images import Picture, digits, image_folder, pictures, pixels
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


def test_sub_folders_are_labels_where_a_folder_has_no_images_of_its_own(folder, tmp_path):
    top = tmp_path / "top"
    (top / "no").mkdir(parents=True)
    folder.joinpath("3.png").rename(top / "no" / "3.png")
    (top / "cat").mkdir()
    folder.joinpath("0.png").rename(top / "cat" / "0.png")
    folder.joinpath("1.png").rename(top / "cat" / "1.png")
    assert pictures(top, 3) == [
        Picture(0, top / "cat" / "0.png", "cat"),
        Picture(1, top / "cat" / "1.png", "cat"),
        Picture(2, top / "no" / "3.png", "no"),
    ]
    assert [picture.index for picture in pictures(top, 2)] == [0, 1]
    assert [picture.label for picture in pictures(folder, 1)] == [None]  # it has an image of its own


def test_pixels_are_those_of_the_image_processor(folder):
    made = transformers.ViTImageProcessorPil(size={"height": 4, "width": 6}, image_mean=[0.0] * 3, image_std=[1.0] * 3)
    found = pixels(pictures(folder, 4), (3, 4, 6), made)
    expected = torch.tensor([0.0, 0.2, 0.4, 1.0])[:, None, None].expand(4, 4, 6)
    torch.testing.assert_close(found[:, 0], expected, rtol=0, atol=1e-6)
    with pytest.raises(UserError, match=r"makes pixels \(3, 4, 6\), but the model wants \(3, 8, 8\)"):
        pixels(pictures(folder, 1), (3, 8, 8), made)
