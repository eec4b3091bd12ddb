from robust_attn.config.settings_page import BEGIN, END, PAGE, table, with_table


def test_the_table_of_the_page_is_current():
    text = PAGE.read_text()
    assert table() in text, "run python -m robust_attn.config.settings_page"
    assert with_table(text) == text


def test_the_table_has_a_row_for_what_the_contract_names():
    rows = {line.split("`")[1]: line for line in table().splitlines()[2:]}
    assert {"model", "model.weights", "layers", "tokens", "samples", "data", "budget", "budget.radius", "attack"} < set(
        rows
    )
    assert {"seed", "device", "dtype", "tracker", "task", "certificate.seed"} < set(rows)
    assert rows["budget.radius"].startswith("| `budget.radius` | 0.01 |")
    assert "mass_split (`copies`" in rows["attack"]


def test_what_stands_around_the_table_stays():
    written = with_table(f"before\n{BEGIN}an earlier table\n{END}after\n")
    assert written == f"before\n{BEGIN}{table()}{END}after\n"
