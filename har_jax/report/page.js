for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...[...table.tHead.rows].at(-1).cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const text = row => row.cells[column].textContent.trim();
    const number = row => parseFloat(text(row));
    const isNumber = text => text === "" || text === "-" || text === "none" || /^[+-]?\d/.test(text);
    button.addEventListener("click", () => {
      const rows = [...body.rows], numbers = rows.every(row => isNumber(text(row)));
      const before = head.getAttribute("aria-sort");
      const up = before ? before === "descending" : !numbers || column === 0;
      rows.sort((a, b) => {
        if (!numbers) return (up ? 1 : -1) * text(a).localeCompare(text(b), undefined, { numeric: true });
        const [x, y] = [number(a), number(b)];
        if (!isFinite(x) || !isFinite(y)) return isFinite(y) - isFinite(x);
        return up ? x - y : y - x;
      });
      body.append(...rows);
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
    });
  });
}
