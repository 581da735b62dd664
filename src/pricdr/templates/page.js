"use strict";
// What a reader can do with a page: look closer, sort, filter, copy, save. Without this script all of it is still there to read.
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const tip = document.getElementById("tip");
  const say = (text) => { document.getElementById("said").textContent = text; };
  for (const tools of all(".tools")) tools.hidden = false;

  // Tooltips. Browsers show titles as tooltips themselves, but not to those who use the keyboard: they move into ours.
  for (const cell of all("th[title], td[title], sup a[title]")) {
    cell.dataset.tip = cell.title;
    cell.removeAttribute("title");
  }
  let owner = null, leaving = 0;
  const place = () => {
    const at = owner.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.min(at.left + at.width / 2 - size.width / 2, innerWidth - size.width - 8);
    const above = at.top - size.height - 8;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above < 8 ? at.bottom + 8 : above}px`;
  };
  const hide = () => {
    clearTimeout(leaving);
    leaving = 0;
    if (owner) owner.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
  };
  const show = (element) => {
    clearTimeout(leaving);
    leaving = 0;
    if (owner === element) return;
    hide();
    owner = element;
    tip.textContent = element.dataset.tip;
    tip.hidden = false;
    element.setAttribute("aria-describedby", "tip");
    place();
  };
  const tipped = (event) => event.target instanceof Element && event.target.closest("[data-tip]");
  const point = (event) => {
    const element = tipped(event);
    if (element) show(element);
    else if (event.target === tip) { clearTimeout(leaving); leaving = 0; }
    else if (owner) leaving ||= setTimeout(hide, 150);
  };
  document.addEventListener("pointermove", point);
  document.addEventListener("pointerdown", point);
  document.addEventListener("focusin", (event) => { const element = tipped(event); if (element) show(element); else hide(); });
  document.addEventListener("focusout", hide);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });
  addEventListener("scroll", () => { if (owner) place(); }, { passive: true, capture: true });

  // One stop of the Tab key per table; arrows move inside.
  const tables = all("table");
  const stops = (table) => all("tbody tr:not([hidden]) > [data-tip]", table);
  const rove = (table) => { stops(table).forEach((stop, at) => { stop.tabIndex = at ? -1 : 0; }); };
  tables.forEach(rove);
  const next = (table, stop, key) => {
    const found = stops(table);
    if (key === "Home") return found[0];
    if (key === "End") return found.at(-1);
    const step = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
    const upright = key === "ArrowDown" || key === "ArrowUp";
    const line = upright ? found.filter((other) => other.cellIndex === stop.cellIndex) : found;
    return line[line.indexOf(stop) + step];
  };
  for (const table of tables) {
    table.addEventListener("keydown", (event) => {
      if (!/^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(event.key) || !stops(table).includes(event.target)) return;
      event.preventDefault();
      const target = next(table, event.target, event.key);
      if (!target) return;
      event.target.tabIndex = -1;
      target.tabIndex = 0;
      target.focus();
    });
  }

  // Folded parts open where a link leads into one, and on paper.
  const reveal = () => {
    const target = document.querySelector(":target");
    for (let part = target?.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
    target?.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = all(".more:not([open])");
    for (const part of opened) part.open = true;
  });
  addEventListener("afterprint", () => { for (const part of opened) part.open = false; });

  // Sorting: by a click on a column's head; a third click brings the first order back.
  const order = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => {
    const numbers = [Number(a), Number(b)];
    return numbers.some(Number.isNaN) ? order.compare(a, b) : numbers[0] - numbers[1];
  };
  for (const table of tables) {
    const body = table.tBodies[0], first = [...body.rows];
    const heads = all("thead th", table);
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...head.childNodes);
      if (!button.textContent.trim()) button.setAttribute("aria-label", "row names");
      head.append(button);
      button.addEventListener("click", () => {
        const ways = head.classList.contains("number") ? ["descending", "ascending"] : ["ascending", "descending"];
        const way = ways[ways.indexOf(head.getAttribute("aria-sort")) + 1];
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        const key = (row) => row.cells[column].dataset.sort;
        const rows = [...first];
        if (way) {
          head.setAttribute("aria-sort", way);
          const sign = way === "ascending" ? 1 : -1;
          // What is missing comes last, whichever way.
          rows.sort((a, b) => (key(a) === "") - (key(b) === "") || sign * compare(key(a), key(b)));
        }
        body.append(...rows);
        rove(table);
        say(way ? `Sorted by ${button.textContent}, ${way}` : "In the first order");
      });
    });
  }

  // Filtering: the rows that contain what was typed.
  for (const field of all("[data-filter]")) {
    const table = field.closest(".table").querySelector("table"), rows = [...table.tBodies[0].rows];
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
      rove(table);
      say(`${rows.filter((row) => !row.hidden).length} of ${rows.length} rows shown`);
    });
  }

  // Copying: the rows that are shown, in the order in which they are shown.
  const text = (cell) => {
    const copy = cell.cloneNode(true);
    all("sup, .anchor", copy).forEach((part) => part.remove());
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  const spread = (row) => [...row.cells].map(text);
  const lines = (table) => [table.tHead.rows[0], ...[...table.tBodies[0].rows].filter((row) => !row.hidden)].map(spread);
  const number = /^[+-]?(\d[\d,]*)?\.?\d+(e[+-]?\d+)?\s?%?( ± [\d.]+)?$/i;
  const field = (shown) => {
    // A program reads no typographic minus.
    const ascii = shown.replace("−", "-");
    const value = number.test(ascii) ? ascii : shown;
    // A spreadsheet would compute what begins like a formula.
    const safe = /^[=+\-@＝＋－＠]/.test(value) && !number.test(value) ? `'${value}` : value;
    return /[",;'\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const formats = {
    csv: (table) => lines(table).map((row) => `${row.map(field).join(",")}\n`).join(""),
    markdown: (table) => {
      const [names, ...rows] = lines(table).map((row) => row.map((cell) => cell.replace(/[\\|*_`[\]<>&~]/g, "\\$&")));
      const rule = all("thead th", table).map((head) => (head.classList.contains("number") ? "---:" : "---"));
      return [names, rule, ...rows].map((row) => `| ${row.join(" | ")} |\n`).join("");
    },
  };
  const copy = async (value) => {
    try {
      await navigator.clipboard.writeText(value);
      return true;
    } catch {
      // Older browsers, and pages that are not trusted with the clipboard.
      const area = document.createElement("textarea");
      area.className = "copied";
      area.value = value;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      if (done) area.remove();
      else area.addEventListener("blur", () => area.remove());
      return done;
    }
  };
  for (const button of all("[data-copy]")) {
    const words = button.textContent;
    button.addEventListener("click", async () => {
      const done = await copy(formats[button.dataset.copy](button.closest(".table").querySelector("table")));
      button.textContent = done ? "Copied" : "Press Ctrl+C";
      say(button.textContent);
      setTimeout(() => { button.textContent = words; }, 1600);
    });
  }

  // Saving: always the light picture.
  for (const button of all("[data-save]")) {
    button.addEventListener("click", () => {
      const figure = button.closest("figure"), link = document.createElement("a");
      link.href = figure.querySelector("img").src;
      link.download = `${figure.id}.svg`;
      link.click();
    });
  }
})();
