import base64
from pathlib import Path

from robust_attn.report import pictures
from robust_attn.report.pictures import pictures_in

PNG = b"\x89PNG\r\n\x1a\nrest"


def test_only_foreign_pngs_are_taken_in(tmp_path: Path) -> None:
    for name in ("layers.png", "mean_field.png", "notes.txt"):
        (tmp_path / name).write_bytes(PNG)
    (tmp_path / "fake.png").write_bytes(b"<svg onload=alert(1)>")
    (picture,) = pictures_in(tmp_path)
    assert picture.name == "mean_field"
    assert base64.b64decode(picture.address.removeprefix("data:image/png;base64,")) == PNG


def test_large_and_many_pictures_do_not_swell_the_page(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(pictures, "LARGEST_BYTES", 20)
    (tmp_path / "a.png").write_bytes(PNG + b"x" * 100)
    for number in range(pictures.MOST + 3):
        (tmp_path / f"b{number}.png").write_bytes(PNG)
    found = pictures_in(tmp_path)
    assert len(found) == pictures.MOST
    assert "a" not in {picture.name for picture in found}


def test_no_folder_no_pictures(tmp_path: Path) -> None:
    assert pictures_in(tmp_path / "figures") == ()
