// The table of rows: search, order, pages.

const PAGE_ROWS = 15;
const EXTREME_ROWS = 6;

function largestOf(data, output) {
  const { values } = data.parts[output];
  const d = data.features.length;
  return data.labels.map((_, i) => {
    let best = 0;
    for (let f = 1; f < d; f++) if (Math.abs(values[i * d + f]) > Math.abs(values[i * d + best])) best = f;
    return best;
  });
}

// The text of each row for searches, in lower case.
function searchTexts(data) {
  return data.labels.map((label, i) =>
    [label, ...data.columns.map((column) => column.texts[i] ?? MISSING)].join("\n").toLowerCase(),
  );
}

// A test of rows from what was typed: "name = value", "name > number", or texts that must all be found, separated by commas.
function testOf(page, query) {
  const { data } = page;
  const text = query.trim().toLowerCase();
  const parts = /^(.*\S)\s*([=<>])\s*(.+)$/.exec(text);
  const f = parts ? data.features.findIndex((name) => name.trim().toLowerCase() === parts[1]) : -1;
  if (f >= 0) {
    const { texts } = data.columns[f];
    if (parts[2] === "=") return (i) => (texts[i] ?? MISSING).toLowerCase() === parts[3];
    const limit = Number(parts[3]);
    if (!Number.isNaN(limit)) {
      const side = parts[2] === ">" ? 1 : -1;
      return (i) => texts[i] !== null && side * (Number(texts[i]) - limit) > 0;
    }
  }
  page.texts = page.texts || searchTexts(data);
  const wanted = text.split(",").map((each) => each.trim()).filter(Boolean);
  return (i) => wanted.every((each) => page.texts[i].includes(each));
}

function sortKeys(page) {
  const { data, state, largest } = page;
  const part = data.parts[state.output];
  const d = data.features.length;
  const at = (list, f) => (i) => list[i * d + f];
  const f = state.feature;
  const numbers = data.labels.every((label) => label.trim() !== "" && Number.isFinite(Number(label)));
  const textKey = (texts, number) => (i) => (texts[i] === null ? null : number ? Number(texts[i]) : texts[i].toLowerCase());
  return {
    label: textKey(data.labels, numbers),
    answer: (i) => data.answers[state.output][i],
    firm: (i) => part.firm[i],
    largest: (i) => Math.abs(part.values[i * d + largest[i]]),
    value: f < 0 ? null : textKey(data.columns[f].texts, data.columns[f].number),
    attribution: f < 0 ? null : at(part.values, f),
  };
}

// Positions of all rows in the chosen order; missing values last, ties in their order.
function ordered(page) {
  const { sort } = page.state;
  const key = sortKeys(page)[sort.key] || sortKeys(page).firm;
  const keys = page.data.labels.map((_, i) => key(i));
  const sign = sort.down ? -1 : 1;
  return keys
    .map((_, i) => i)
    .sort((i, j) => {
      const [a, b] = [keys[i], keys[j]];
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      return a < b ? -sign : a > b ? sign : i - j;
    });
}

function columnsOf(page, short = false) {
  const { data, state } = page;
  const columns = [{ title: "row", key: "label", kind: "label" }];
  if (data.answers) columns.push({ title: "answer", key: "answer", number: true });
  columns.push({ title: "firm share", key: "firm", kind: "part" });
  if (state.feature < 0 || short) columns.push({ title: "largest attribution", key: "largest" });
  else {
    const name = shortened(data.features[state.feature], 24);
    columns.push({ title: name, key: "value", number: true }, { title: "attribution", key: "attribution", number: true });
  }
  for (const column of columns) {
    if (!short && column.key === state.sort.key) column.sorted = state.sort.down ? "descending" : "ascending";
  }
  return columns;
}

function lineOf(page, i, short = false) {
  const { data, state, decimals, largest } = page;
  const part = data.parts[state.output];
  const d = data.features.length;
  const cells = [element("button", { type: "button" }, data.labels[i])];
  if (data.answers) cells.push(answerText(page, data.answers[state.output][i]));
  cells.push([meter(part.firm[i]), percent(part.firm[i])]);
  const f = short || state.feature < 0 ? largest[i] : state.feature;
  const amount = signedNumber(part.values[i * d + f], decimals);
  if (short || state.feature < 0) cells.push(`${shortened(data.features[f], 30)} ${amount}`);
  else cells.push(valueOf(data.columns[f].texts[i]), amount);
  return cells;
}

function fillRows(page, table, rows, onSort = null) {
  const short = onSort === null;
  const lines = rows.map((i) => lineOf(page, i, short));
  fillTable(table, columnsOf(page, short), lines, onSort).forEach((line, at) => {
    line.dataset.row = rows[at];
    line.setAttribute("aria-selected", String(rows[at] === page.state.row));
  });
}

function showExtremes(page) {
  const { firm } = page.data.parts[page.state.output];
  const order = firm.map((_, i) => i).sort((i, j) => firm[i] - firm[j] || i - j);
  const k = Math.min(EXTREME_ROWS, order.length);
  fillRows(page, byId("least"), order.slice(0, k));
  fillRows(page, byId("most"), order.slice(order.length - k).reverse());
}

function showTable(page) {
  const { state, data } = page;
  page.order = page.order || ordered(page);
  const test = state.query.trim() ? testOf(page, state.query) : null;
  page.found = test ? page.order.filter(test) : page.order;
  const pages = Math.max(Math.ceil(page.found.length / PAGE_ROWS), 1);
  state.page = Math.min(Math.max(state.page, 0), pages - 1);
  const start = state.page * PAGE_ROWS;
  const shown = page.found.slice(start, start + PAGE_ROWS);
  fillRows(page, byId("table"), shown, (column) => {
    const down = state.sort.key === column.key ? !state.sort.down : ["answer", "largest", "attribution"].includes(column.key);
    Object.assign(state, { sort: { key: column.key, down }, page: 0 });
    page.order = null;
    showTable(page);
    byId("table").querySelector("th[aria-sort$='scending'] button").focus();
  });
  const all = test ? ` found among ${counted(data.labels.length)}` : "";
  byId("count").textContent = shown.length
    ? `${counted(start + 1)} to ${counted(start + shown.length)} of ${counted(page.found.length)}${all}`
    : "No row has this text.";
  byId("before").disabled = state.page === 0;
  byId("after").disabled = state.page >= pages - 1;
}
