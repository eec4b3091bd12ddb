import pytest

from robust_attn.records.home import without_home


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("/home/ada/text.txt", "~/text.txt"),
        ("data.path=/home/ada/text.txt", "data.path=~/text.txt"),
        ("/home/ada", "~"),
        ("/home/adams/text.txt", "/home/adams/text.txt"),
        ("/data/text.txt", "/data/text.txt"),
        ("/backup/home/ada/x", "/backup/home/ada/x"),
        ({"a": ["/home/ada/x", 1, None], "b": {"c": "/home/ada"}}, {"a": ["~/x", 1, None], "b": {"c": "~"}}),
        (3.5, 3.5),
    ],
)
def test_the_home_folder_is_a_tilde(given, shown, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ada")
    assert without_home(given) == shown


@pytest.mark.parametrize("home", ["/", ""])
def test_no_home_to_speak_of_changes_nothing(home, monkeypatch):
    monkeypatch.setenv("HOME", home)
    assert without_home("/data/text.txt") == "/data/text.txt"
