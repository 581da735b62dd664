"use strict";
// What a reader can do with a page: look closer, sort, choose, copy, download. Without this script all of it is still there to read.
(() => {
  const all = (query, root = document) => [...root.querySelectorAll(query)];
  const tip = document.getElementById("tip");
  const say = (text) => { document.getElementById("said").textContent = text; };
  for (const tools of all(".tools, .choice")) tools.hidden = false;

  // Tooltips. Browsers show titles as tooltips themselves, but not to those who use the keyboard: they move into ours.
  for (const cell of all("th[title], td[title], sup a[title]")) {
    cell.dataset.tip = cell.title;
    cell.removeAttribute("title");
  }
  for (const mark of all("svg .mark")) {
    const title = mark.querySelector("title");
    if (!title) continue;
    mark.dataset.tip = title.textContent;
    title.remove();
  }
  let owner = null, leaving = 0;
  const place = () => {
    const at = (owner.querySelector("circle") || owner).getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.min(at.left + at.width / 2 - size.width / 2, innerWidth - size.width - 8);
    const above = at.top - size.height - 8;
    tip.style.left = `${Math.max(8, left)}px`;
    tip.style.top = `${above < 8 ? at.bottom + 8 : above}px`;
  };
  const hide = () => {
    clearTimeout(leaving);
    leaving = 0;
    if (owner && !owner.closest("svg")) owner.removeAttribute("aria-describedby");
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
    // A mark says all of it in its label.
    if (!element.closest("svg")) element.setAttribute("aria-describedby", "tip");
    place();
  };
  const tipped = (event) => event.target instanceof Element && event.target.closest("[data-tip]");
  // Points are small: the nearest one within a finger's width will do.
  const nearest = (event) => {
    const svg = event.target instanceof Element && event.target.closest("svg.chart");
    let best = null, least = 16;
    for (const mark of svg ? all(".mark:not(.off)", svg) : []) {
      const at = mark.getBoundingClientRect(), { clientX: x, clientY: y } = event;
      const away = Math.hypot(Math.max(at.left - x, 0, x - at.right), Math.max(at.top - y, 0, y - at.bottom));
      if (away < least) [best, least] = [mark, away];
    }
    return best;
  };
  const point = (event) => {
    const element = tipped(event) || nearest(event);
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

  // One stop of the Tab key per table and figure; arrows move inside.
  const stops = (group) => all(group.matches("svg") ? ".mark:not(.off)" : "tbody tr:not([hidden]) > [data-tip]", group);
  const rove = (group) => { stops(group).forEach((stop, at) => { stop.tabIndex = at ? -1 : 0; }); };
  const groups = all("svg.chart, table");
  groups.forEach(rove);
  const next = (group, stop, key) => {
    const found = stops(group), at = found.indexOf(stop);
    if (key === "Home") return found[0];
    if (key === "End") return found.at(-1);
    const step = key === "ArrowRight" || key === "ArrowDown" ? 1 : -1;
    if (group.matches("table") && (key === "ArrowDown" || key === "ArrowUp")) {
      const column = found.filter((other) => other.cellIndex === stop.cellIndex);
      return column[column.indexOf(stop) + step];
    }
    return found[at + step];
  };
  for (const group of groups) {
    group.addEventListener("keydown", (event) => {
      if (!/^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(event.key) || !stops(group).includes(event.target)) return;
      event.preventDefault();
      const target = next(group, event.target, event.key);
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
  for (const table of all("table")) {
    const body = table.tBodies[0], first = [...body.rows];
    const heads = all(".names > th", table);
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

  // Choosing what to see: in all tables and figures of the section.
  for (const choice of all(".choice")) {
    const section = choice.closest("section"), boxes = all("input", choice);
    const summary = choice.querySelector("summary"), words = summary.textContent;
    const apply = () => {
      const hidden = new Set(boxes.filter((box) => !box.checked).map((box) => box.value));
      for (const element of all("[data-series]", section)) {
        const off = hidden.has(element.dataset.series);
        if (element.matches("tr")) element.hidden = off;
        else element.classList.toggle("off", off);
      }
      all("svg.chart, table", section).forEach(rove);
      const count = `${boxes.length - hidden.size} of ${boxes.length} shown`;
      summary.textContent = hidden.size ? `${words} (${count})` : words;
      say(count);
    };
    choice.addEventListener("change", apply);
    for (const button of all("[data-choose]", choice)) {
      button.addEventListener("click", () => {
        boxes.forEach((box) => { box.checked = button.dataset.choose === "all"; });
        apply();
      });
    }
  }

  // Copying: the rows that are shown, in the order in which they are shown.
  const text = (cell) => {
    const copy = cell.cloneNode(true);
    all("sup, .anchor", copy).forEach((part) => part.remove());
    return copy.textContent.replace(/\s+/g, " ").trim();
  };
  const spread = (row) => (row ? [...row.cells].flatMap((cell) => Array(cell.colSpan).fill(text(cell))) : []);
  const lines = (table) => {
    const spans = spread(table.querySelector(".spans"));
    const names = spread(table.querySelector(".names")).map((name, at) => [spans[at], name].filter(Boolean).join(": "));
    return [names, ...[...table.tBodies[0].rows].filter((row) => !row.hidden).map(spread)];
  };
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
      const rule = all(".names > th", table).map((head) => (head.classList.contains("number") ? "---:" : "---"));
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

  // Downloads: always in light colours, on white.
  const picture = (figure) => {
    const svg = figure.querySelector("svg"), copied = svg.cloneNode(true);
    all(".off", copied).forEach((part) => part.remove());
    for (const part of [copied, ...all("*", copied)]) {
      for (const name of ["tabindex", "data-tip", "aria-describedby", "class"]) part.removeAttribute(name);
    }
    const make = (name) => document.createElementNS(svg.namespaceURI, name);
    const title = make("title"), paper = make("rect");
    title.textContent = figure.querySelector("figcaption .title").textContent;
    for (const [name, value] of [["width", "100%"], ["height", "100%"], ["fill", "#ffffff"]]) paper.setAttribute(name, value);
    copied.prepend(title, paper);
    const { width, height } = svg.viewBox.baseVal;
    return { width, height, text: new XMLSerializer().serializeToString(copied) };
  };
  const save = (blob, name) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const painted = async ({ width, height, text: source }, scale) => {
    const image = new Image(width * scale, height * scale);
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(source)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width * scale;
    canvas.height = height * scale;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  };
  for (const button of all("[data-save]")) {
    button.addEventListener("click", async () => {
      const figure = button.closest("figure"), drawn = picture(figure), kind = button.dataset.save;
      const blob = kind === "svg" ? new Blob([drawn.text], { type: "image/svg+xml" }) : await painted(drawn, 2);
      save(blob, `${figure.id}.${kind}`);
    });
  }
})();
