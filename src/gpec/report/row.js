// One row: its words, its waterfall, its table, its similar rows.

const MOST_FEATURES = 15;

// A row's numbers for one class, features in the order of their size.
function rowOf(data, output, position) {
  const part = data.parts[output];
  const d = data.features.length;
  const cut = (list) => list.slice(position * d, (position + 1) * d);
  const values = cut(part.values);
  return {
    values,
    lower: cut(part.lower),
    upper: cut(part.upper),
    std: cut(part.std),
    model: cut(part.model),
    words: [...cut(part.words)].map(Number),
    firm: part.firm[position],
    base: data.base ? data.base[output][position] : null,
    answer: data.answers ? data.answers[output][position] : null,
    order: values.map((_, f) => f).sort((f, g) => Math.abs(values[g]) - Math.abs(values[f]) || f - g),
  };
}

function showRow(page, position, everything = false) {
  const { data, state, decimals } = page;
  const row = rowOf(data, state.output, position);
  const texts = data.columns.map((column) => column.texts[position]);
  byId("row-title").textContent = "Row " + data.labels[position];
  showWords(page, row);
  drawWaterfall(data.features, texts, row, decimals, page.unit);
  showFeatures(page, row, texts, everything);
  showSimilar(page, row, position);
}

function showWords(page, row) {
  const sentences = [];
  if (row.answer !== null) {
    const name = page.data.outputs[page.state.output];
    const whose = name ? ` for the class “${name}”` : "";
    sentences.push(`The model’s answer${whose} is ${answerText(page, row.answer)}.`);
  }
  const firm = row.words.filter((word) => word === 0).length;
  const all = row.words.filter((word) => word !== 3).length; // the others have no sign
  sentences.push(
    `Features with a firm sign make up ${percent(row.firm)} of this explanation; ` +
      `the sign is firm for ${firm} of ${all} ${all === 1 ? "feature" : "features"}.`,
  );
  const unclear = row.order.filter((f) => row.words[f] === 2)[0];
  if (unclear !== undefined) {
    sentences.push(`The largest attribution of unclear sign is that of ${page.data.features[unclear]}.`);
  }
  const swatch = (fill, border, opacity) => {
    const made = element("span", { class: "swatch", "aria-hidden": "true" });
    made.style.borderColor = border;
    made.style.background = fill;
    made.style.opacity = opacity;
    return made;
  };
  const key = [
    ["var(--up)", "var(--up)", 1, "raises the answer"],
    ["var(--down)", "var(--down)", 1, "lowers it"],
    ["var(--soft)", "var(--soft)", 0.55, "paler: sign likely"],
    ["none", "var(--soft)", 1, "hollow: sign unclear"],
  ].map(([fill, border, opacity, text]) => element("li", {}, swatch(fill, border, opacity), text));
  byId("row-words").replaceChildren(element("p", {}, sentences.join(" ")), element("ul", { class: "key" }, ...key));
}

function showFeatures(page, row, texts, everything) {
  const { data, decimals } = page;
  const order = everything ? row.order : row.order.slice(0, MOST_FEATURES);
  const columns = [
    { title: "feature", kind: "name" },
    { title: "attribution", number: true },
    { title: "value", number: true },
    { title: `${+(100 * data.level).toPrecision(4)}% interval`, number: true },
    { title: "sign", kind: "word" },
    { title: "model / noise", kind: "part" },
  ];
  const lines = order.map((f) => [
    data.features[f],
    signedNumber(row.values[f], decimals),
    valueOf(texts[f]),
    `${signedNumber(row.lower[f], decimals)} to ${signedNumber(row.upper[f], decimals)}`,
    WORDS[row.words[f]],
    row.std[f] > 0
      ? [meter(row.model[f] / 100, "parts"), `${row.model[f]} / ${100 - row.model[f]}%`]
      : [element("span", { class: "soft" }, "no uncertainty")],
  ]);
  fillTable(byId("row-table"), columns, lines);
  const more = byId("row-more");
  more.replaceChildren();
  if (order.length < row.order.length) {
    const button = element("button", { type: "button", id: "row-all" }, `Show all ${counted(row.order.length)} features`);
    button.addEventListener("click", () => showFeatures(page, row, texts, true));
    more.append(button);
  }
}

function showSimilar(page, row, position) {
  const { data, decimals, state } = page;
  const similar = data.similar;
  const slot = similar.rows ? page.similarSlot.get(position) : undefined;
  const words = byId("similar-words");
  const table = byId("similar-table");
  const chart = byId("similar");
  table.hidden = chart.hidden = slot === undefined;
  if (slot === undefined) {
    const missing = similar.rows ? "The similar rows of this row are not in this file. " : "";
    words.replaceChildren(element("p", {}, missing + similar.note));
    return;
  }
  const d = data.features.length;
  const first = slot * similar.count;
  const others = Array.from({ length: similar.count }, (_, k) =>
    similar.values[state.output].slice((first + k) * d, (first + k + 1) * d),
  );
  const sentences = [
    `Each circle is one of ${similar.count} similar rows` +
      `${similar.explained ? "" : ", its attribution predicted rather than computed"}; the diamond is this row.`,
  ];
  const answers = similar.answers ? similar.answers[state.output].slice(first, first + similar.count) : null;
  if (answers) {
    const [least, most] = [Math.min(...answers), Math.max(...answers)].map((end) => answerText(page, end));
    sentences.push(`Among them the model’s answer runs from ${least} to ${most}.`);
  }
  if (!similar.columns) sentences.push(similar.note);
  words.replaceChildren(element("p", {}, sentences.join(" ")));
  drawSimilar(data.features, row, others, decimals, page.unit);
  table.hidden = !similar.columns;
  if (!similar.columns) return;
  const top = row.order.slice(0, isNarrow("row") ? 2 : 4);
  const columns = [{ title: "similar row" }, ...(answers ? [{ title: "answer", number: true }] : [])];
  for (const f of top) columns.push({ title: shortened(data.features[f], 24), number: true });
  const cell = (text, value) => [valueOf(text), element("br"), element("span", { class: "soft" }, signedNumber(value, decimals))];
  const line = (name, answer, textAt, values) => [
    name,
    ...(answers ? [answerText(page, answer)] : []),
    ...top.map((f) => cell(textAt(f), values[f])),
  ];
  const lines = others.map((values, k) =>
    line(String(k + 1), answers && answers[k], (f) => similar.columns[f].texts[first + k], values),
  );
  const answer = row.answer === null ? NaN : row.answer;
  const own = line("this row", answer, (f) => data.columns[f].texts[position], row.values);
  fillTable(table, columns, [own, ...lines]);
}

function answerText(page, answer) {
  if (Number.isNaN(answer)) return "";
  return plainNumber(answer, page.data.answer_decimals);
}
