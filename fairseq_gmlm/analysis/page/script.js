"use strict";
(() => {
  const attention = JSON.parse(document.getElementById("attention").textContent);
  const panel = document.getElementById("panel");
  const hint = panel.firstElementChild;
  const chains = [...document.querySelectorAll(".chain")];
  const LEAST = 2; // per cent
  let pinned = null; // the cell that has the focus

  const cellsOf = (chain) => [...chain.querySelectorAll("td.cell")];
  const cellAt = (chain, pass, place) =>
    chain.querySelector(`td[data-pass="${pass}"][data-place="${place}"]`);
  const tokenOf = (element) => element.querySelector(".token").textContent;

  function clear() {
    for (const element of document.querySelectorAll(".attends, .here")) {
      element.classList.remove("attends", "here");
      element.style.removeProperty("--share");
    }
    for (const element of document.querySelectorAll(".share")) element.textContent = "";
    panel.replaceChildren(hint);
  }

  function mark(element, percent) {
    if (percent < LEAST) return;
    element.classList.add("attends");
    element.style.setProperty("--share", String(percent / 100));
    const share = element.querySelector(".share");
    if (share) share.textContent = String(percent);
  }

  // The largest weights, as text: `man 40 %, a 12 %`.
  function listed(weights, tokens) {
    return weights
      .map((percent, place) => [percent, tokens[place]])
      .filter(([percent]) => percent >= LEAST)
      .sort((a, b) => b[0] - a[0])
      .slice(0, 5)
      .map(([percent, token]) => `${token} ${percent} %`)
      .join(", ") || "nothing above 2 %";
  }

  function line(...parts) {
    const paragraph = document.createElement("p");
    for (const [tag, text] of parts) {
      const element = document.createElement(tag);
      element.textContent = text;
      paragraph.append(element);
    }
    return paragraph;
  }

  function show(cell) {
    clear();
    const chain = cell.closest(".chain");
    const { pass, place } = cell.dataset;
    const found = attention[chain.dataset.sentence][chain.dataset.chain][pass];
    const source = [...chain.querySelectorAll(".attended")];
    const row = [...cell.parentElement.querySelectorAll("td.cell")];
    found.cross[place].forEach((percent, i) => mark(source[i], percent));
    found.inner[place].forEach((percent, i) => mark(row[i], percent));
    cell.classList.add("here");
    const sure = cell.dataset.probability;
    panel.replaceChildren(
      line(
        ["b", tokenOf(cell)],
        ["span", ` (pass ${Number(pass) + 1}, position ${Number(place) + 1}): ${cell.dataset.state}`],
        ["span", sure === undefined ? "" : `; probability ${sure} %`],
      ),
      line(["span", `attends to the source: ${listed(found.cross[place], source.map(tokenOf))}`]),
      line(["span", `attends to the target: ${listed(found.inner[place], row.map(tokenOf))}`]),
    );
  }

  function focus(cell) {
    if (!cell) return;
    // One cell of each chain is in the order of Tab: the one that was last visited.
    for (const other of cellsOf(cell.closest(".chain"))) other.tabIndex = -1;
    cell.tabIndex = 0;
    cell.focus();
    pin(cell); // a window in the background sends no event for it
  }

  function pin(cell) {
    pinned = cell;
    if (cell) show(cell);
  }

  function target(event, cell) {
    const chain = cell.closest(".chain");
    const row = [...cell.parentElement.querySelectorAll("td.cell")];
    const pass = Number(cell.dataset.pass);
    const place = Number(cell.dataset.place);
    switch (event.key) {
      case "ArrowLeft": return cellAt(chain, pass, place - 1);
      case "ArrowRight": return cellAt(chain, pass, place + 1);
      case "ArrowUp": return cellAt(chain, pass - 1, place);
      case "ArrowDown": return cellAt(chain, pass + 1, place);
      case "Home": return event.ctrlKey ? cellAt(chain, 0, 0) : row[0];
      case "End": return event.ctrlKey ? cellsOf(chain).at(-1) : row.at(-1);
      default: return undefined;
    }
  }

  function step(from, by) {
    const next = chains[(from === null ? (by > 0 ? -1 : chains.length) : chains.indexOf(from)) + by];
    if (next) focus(next.querySelector('td.cell[tabindex="0"]'));
  }

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey) return;
    const cell = event.target.closest?.("td.cell") ?? null;
    if (event.key === "Escape") {
      cell?.blur();
      pinned = null;
      clear();
    } else if ((event.key === "n" || event.key === "p") && !event.ctrlKey) {
      step(cell ? cell.closest(".chain") : null, event.key === "n" ? 1 : -1);
    } else if (cell) {
      const next = target(event, cell);
      if (next === undefined) return;
      event.preventDefault();
      focus(next);
    }
  });
  document.addEventListener("focusin", (event) => pin(event.target.closest("td.cell")));
  document.addEventListener("mouseover", (event) => {
    const cell = event.target.closest("td.cell");
    if (cell) show(cell);
  });
  document.addEventListener("mouseout", (event) => {
    if (!event.target.closest("td.cell")) return;
    if (pinned) show(pinned);
    else clear();
  });
  document.addEventListener("click", (event) => {
    focus(event.target.closest("td.cell"));
  });
})();
