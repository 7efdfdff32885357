// The page: its state, its events, and its start.

function markSelected(page) {
  for (const line of document.querySelectorAll("table.rows tbody tr")) {
    line.setAttribute("aria-selected", String(Number(line.dataset.row) === page.state.row));
  }
}

function select(page, position, go) {
  page.state.row = position;
  markSelected(page);
  showRow(page, position);
  if (go) {
    const title = byId("row-title");
    title.focus({ preventScroll: true });
    const { top } = byId("row").getBoundingClientRect();
    if (top < 0 || top > window.innerHeight * 0.6) byId("row").scrollIntoView({ block: "start" });
  }
}

function showOverall(page) {
  const { data, state, decimals } = page;
  const overall = data.overall[state.output];
  const order = data.features.map((_, f) => f).sort((f, g) => overall.size[g] - overall.size[f] || f - g);
  drawOverall(data.features, overall, order.slice(0, 20), decimals, page.unit);
  const columns = [
    { title: "feature", kind: "name" },
    { title: "mean size", number: true },
    { title: `${+(100 * data.level).toPrecision(4)}% interval of the mean`, number: true },
    { title: "rows with a firm sign", number: true },
  ];
  const number = (value) => plainNumber(value, decimals);
  const lines = order.slice(0, 200).map((f) => [
    data.features[f],
    number(overall.size[f]),
    `${number(overall.least[f])} to ${number(overall.most[f])}`,
    percent(overall.firm[f]),
  ]);
  fillTable(byId("overall-table"), columns, lines);
}

function showOutput(page) {
  page.largest = largestOf(page.data, page.state.output);
  page.decimals = page.data.decimals[page.state.output];
  page.order = null;
  showOverall(page);
  showExtremes(page);
  showTable(page);
  showRow(page, page.state.row);
  markSelected(page);
}

function listen(page) {
  const { state } = page;
  byId("query").addEventListener("input", (event) => {
    Object.assign(state, { query: event.target.value, page: 0 });
    showTable(page);
  });
  byId("find").addEventListener("submit", (event) => event.preventDefault());
  byId("feature").addEventListener("change", (event) => {
    state.feature = Number(event.target.value);
    if (["value", "attribution", "largest"].includes(state.sort.key)) {
      state.sort = { key: "firm", down: false };
      page.order = null;
    }
    showTable(page);
  });
  byId("output").addEventListener("change", (event) => {
    state.output = Number(event.target.value);
    showOutput(page);
  });
  for (const [id, step] of [["before", -1], ["after", 1]]) {
    byId(id).addEventListener("click", () => {
      state.page += step;
      showTable(page);
    });
  }
  for (const table of document.querySelectorAll("table.rows")) {
    table.addEventListener("click", (event) => {
      const line = event.target.closest("tbody tr");
      if (line) select(page, Number(line.dataset.row), true);
    });
    table.addEventListener("keydown", (event) => {
      const line = event.target.closest("tbody tr");
      const next = line && { ArrowDown: line.nextElementSibling, ArrowUp: line.previousElementSibling }[event.key];
      if (!next) return;
      event.preventDefault();
      next.querySelector("button").focus();
      select(page, Number(next.dataset.row), false);
    });
  }
  const redraw = () => {
    showOverall(page);
    showRow(page, state.row);
  };
  let waiting = null;
  let { innerWidth } = window;
  window.addEventListener("resize", () => {
    if (window.innerWidth === innerWidth) return; // a phone's bars come and go
    ({ innerWidth } = window);
    clearTimeout(waiting);
    waiting = setTimeout(redraw, 150);
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  for (const [name, printing] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(name, () => {
      document.documentElement.classList.toggle("print", printing);
      for (const details of document.querySelectorAll("details")) details.open = printing || details.open;
      redraw();
    });
  }
}

function fillSelectors(page) {
  const { data } = page;
  byId("classes").hidden = data.outputs.length < 2;
  byId("output").append(...data.outputs.map((name, k) => element("option", { value: k }, shortened(name, 60))));
  byId("feature").append(element("option", { value: -1 }, "the largest"));
  byId("feature").append(...data.features.map((name, f) => element("option", { value: f }, shortened(name, 60))));
}

async function start() {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser is too old; open it in one of 2023 or later.");
  }
  const charts = unpack("charts").blob().then(loadCharts); // beside the rest: it takes a while and needs no other part
  const data = await unpack("data").json();
  const state = { output: 0, query: "", sort: { key: "firm", down: false }, page: 0, feature: -1, row: 0 };
  const page = { data, state, unit: data.unit };
  page.similarSlot = new Map((data.similar.rows || []).map((position, slot) => [position, slot]));
  fillSelectors(page);
  const { firm } = data.parts[0];
  state.row = firm.reduce((least, share, i) => (share < firm[least] ? i : least), 0);
  showOutput(page);
  listen(page);
  performance.mark("usable");
  await new Promise((shown) => requestAnimationFrame(() => setTimeout(shown)));
  await charts;
  showOverall(page);
  showRow(page, state.row);
  performance.mark("ready");
  document.documentElement.dataset.ready = "yes";
  setTimeout(() => (page.texts = page.texts || searchTexts(data))); // so that the first search need not wait for it
}

start().catch((error) => {
  const place = byId("failure");
  place.hidden = false;
  place.textContent = `The page could not be shown: ${error.message}`;
  console.error(error);
});
