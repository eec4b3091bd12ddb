"use strict";
/* Sorts any table marked data-sortable by the button in a column's head; unknown values stay last in either direction.
   Shows one of several panels where a fieldset marked data-chooses offers them; without this script all are shown. */
(function () {
  const key = (row, column) => {
    const cell = row.cells[column];
    const given = cell.getAttribute("data-value");
    return given === null ? cell.textContent.trim() : given === "" ? null : Number(given);
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
  const sort = (table, head, column) => {
    const down = head.getAttribute("aria-sort") === "ascending";
    const keyed = Array.from(table.tBodies[0].rows, row => [key(row, column), row]);
    keyed.sort(([a], [b]) => a === null || b === null ? (a === null) - (b === null) : down ? compare(b, a) : compare(a, b));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    table.tBodies[0].append(...keyed.map(([, row]) => row));
  };
  for (const table of document.querySelectorAll("table[data-sortable]")) {
    Array.from(table.tHead.rows[0].cells).forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => sort(table, head, column));
    });
  }
  for (const choice of document.querySelectorAll("fieldset[data-chooses]")) {
    const offered = Array.from(choice.elements);
    const show = () => {
      for (const one of offered) document.getElementById(one.value).hidden = !one.checked;
    };
    choice.hidden = false;
    choice.addEventListener("change", show);
    show();
  }
  window.addEventListener("beforeprint", () => {
    for (const closed of document.querySelectorAll("details")) closed.open = true;
  });
})();
