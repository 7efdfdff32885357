// Charts by plotly. Names are escaped for its markup, so that a name with tags stays a name.

const LINE_HEIGHT = 26;
const MOST_BARS = 12;

let plotly = null;

async function loadCharts(source) {
  const script = document.createElement("script");
  script.integrity = byId("charts").dataset.hash;
  script.src = URL.createObjectURL(source); // a script with an address is compiled beside the page, not before it
  await new Promise((done) => {
    script.onload = script.onerror = done;
    document.head.append(script);
  });
  URL.revokeObjectURL(script.src);
  plotly = window.Plotly || null;
  if (!plotly) throw new Error("its charts did not load; the tables hold the same numbers.");
}

function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\$/g, "&#36;");
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

function draw(id, traces, layout, lines) {
  const place = byId(id);
  if (!plotly) return;
  const axis = {
    fixedrange: true,
    zerolinecolor: colour("neutral"),
    gridcolor: colour("line"),
    linecolor: colour("line"),
    tickfont: { size: 12 },
    automargin: true,
    tickangle: 0,
  };
  const full = {
    height: lines * LINE_HEIGHT + 70,
    margin: { l: 8, r: 12, t: 8, b: 44, pad: 4 },
    font: { family: "system-ui, sans-serif", size: 12, color: colour("ink") },
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    showlegend: false,
    dragmode: false,
    hovermode: "closest",
    hoverlabel: { bgcolor: colour("paper"), bordercolor: colour("line"), font: { color: colour("ink") } },
    bargap: 0.32,
    ...layout,
  };
  for (const name of ["xaxis", "yaxis", "xaxis2"]) {
    if (layout[name] || name !== "xaxis2") full[name] = { ...axis, ...layout[name] };
  }
  plotly.react(place, traces, full, { displayModeBar: false, responsive: true });
}

function isNarrow(id) {
  return byId(id).clientWidth < 480;
}

function nameLength(id) {
  return isNarrow(id) ? 20 : 30;
}

// An axis of attributions, its title shorter where there is little room.
function xAxis(id, title, unit) {
  const full = unit ? `${title} (${escaped(unit)})` : title;
  return { nticks: isNarrow(id) ? 4 : 8, title: { text: isNarrow(id) ? escaped(unit) || title : full } };
}

function yAxis(names) {
  return {
    tickvals: names.map((_, i) => i),
    ticktext: names.map(escaped),
    range: [names.length - 0.4, -0.6],
    showgrid: false,
    zeroline: false,
  };
}

function interval(low, value, high, thin) {
  return {
    type: "data",
    symmetric: false,
    array: high.map((bound, i) => (bound === null ? 0 : bound - value[i])),
    arrayminus: low.map((bound, i) => (bound === null ? 0 : value[i] - bound)),
    color: colour("ink"),
    thickness: thin ? 1.2 : 1.5,
    width: 3,
  };
}

function drawOverall(names, overall, order, decimals, unit) {
  const pick = (list) => order.map((f) => list[f]);
  const [size, least, most, firm] = [overall.size, overall.least, overall.most, overall.firm].map(pick);
  const shown = order.map((f) => shortened(names[f], nameLength("overall")));
  const places = order.map((_, i) => i);
  const say = (i) =>
    `${escaped(names[order[i]])}<br>mean size ${plainNumber(size[i], decimals)}, ` +
    `from ${plainNumber(least[i], decimals)} to ${plainNumber(most[i], decimals)}<br>firm in ${percent(firm[i])} of rows`;
  const common = { y: places, orientation: "h", hoverinfo: "text", hovertext: places.map(say) };
  const narrow = isNarrow("overall");
  draw(
    "overall",
    [
      {
        ...common,
        type: "bar",
        x: size,
        marker: { color: colour("neutral") },
        error_x: interval(least, size, most),
      },
      {
        ...common,
        type: "scatter",
        mode: "markers",
        x: firm.map((share) => 100 * share),
        xaxis: "x2",
        marker: { color: colour("accent"), size: 9 },
      },
    ],
    {
      margin: { l: 8, r: 28, t: 8, b: 44, pad: 4 },
      yaxis: yAxis(shown),
      xaxis: { ...xAxis("overall", "mean size", unit), domain: [0, 0.64], rangemode: "tozero" },
      xaxis2: {
        domain: [0.7, 1],
        range: [-6, 106],
        tickvals: [0, 50, 100],
        ticktext: narrow ? ["0", "", "100"] : ["0%", "50%", "100%"],
        zeroline: false,
        title: { text: narrow ? "firm, %" : "rows with a firm sign" },
      },
    },
    order.length,
  );
}

// The largest attributions of a row as steps from the base value (below) to what they add up to (above).
function drawWaterfall(names, texts, row, decimals, unit) {
  const order = row.order.slice(0, MOST_BARS);
  const rest = row.order.slice(MOST_BARS);
  const length = nameLength("waterfall");
  const steps = order.map((f) => ({
    name: `${shortened(names[f], length - 4)} = ${shortened(texts[f] ?? MISSING, 12)}`,
    full: `${names[f]} = ${texts[f] ?? MISSING}`,
    value: row.values[f],
    lower: row.lower[f],
    upper: row.upper[f],
    word: row.words[f],
  }));
  if (rest.length) {
    const sum = rest.reduce((total, f) => total + row.values[f], 0);
    const name = `${rest.length} smaller ones`;
    steps.push({ name, full: name + ", added up", value: sum, lower: null, upper: null, word: null });
  }
  let end = row.base || 0;
  for (const step of [...steps].reverse()) {
    step.start = end;
    end += step.value;
    step.end = end;
  }
  const ends = steps.map((step) => step.end);
  const bound = (name) => steps.map((step) => (step[name] === null ? null : step.start + step[name]));
  const say = (step) =>
    `${escaped(step.full)}<br>${signedNumber(step.value, decimals)}` +
    (step.word === null
      ? ""
      : ` (${signedNumber(step.lower, decimals)} to ${signedNumber(step.upper, decimals)})<br>sign ${WORDS[step.word]}`);
  const paint = (step) => colour(step.value >= 0 ? "up" : "down");
  const above = { showarrow: false, y: 1, yref: "paper", yanchor: "bottom", font: { size: 11, color: colour("soft") } };
  const line = (x, text) => ({ ...above, x, text });
  const start = row.base || 0;
  const apart = Math.abs(end - start);
  const reach = [start, ...ends, ...bound("lower"), ...bound("upper")].filter((x) => x !== null);
  const room = 0.04 * (Math.max(...reach) - Math.min(...reach)) || 1;
  const labels = row.base === null ? [] : [
    { ...line(start, `base ${plainNumber(start, decimals)}`), xanchor: end >= start ? "right" : "left" },
    { ...line(end, `sum ${plainNumber(end, decimals)}`), xanchor: end >= start ? "left" : "right" },
  ];
  draw(
    "waterfall",
    [
      {
        type: "bar",
        orientation: "h",
        y: steps.map((_, i) => i),
        base: steps.map((step) => step.start),
        x: steps.map((step) => step.value),
        marker: {
          color: steps.map((step) => (step.word === null ? colour("neutral") : step.word === 2 ? "rgba(0,0,0,0)" : paint(step))),
          opacity: steps.map((step) => (step.word === 1 ? 0.55 : 1)),
          line: { color: steps.map((step) => (step.word === null ? colour("neutral") : paint(step))), width: 1.5 },
        },
        error_x: interval(bound("lower"), ends, bound("upper"), true),
        hoverinfo: "text",
        hovertext: steps.map(say),
      },
    ],
    {
      margin: { l: 8, r: 16, t: labels.length ? 26 : 8, b: 44, pad: 4 },
      yaxis: yAxis(steps.map((step) => step.name)),
      xaxis: {
        ...xAxis("waterfall", row.base === null ? "sum of attributions" : "base value and attributions", unit),
        zeroline: row.base === null,
        range: [Math.min(...reach) - room, Math.max(...reach) + room], // labels would widen it
      },
      annotations: apart > 0 ? labels : labels.slice(0, 1),
      shapes: (row.base === null ? [] : [start, end]).map((x) => ({
        type: "line",
        x0: x,
        x1: x,
        y0: 0,
        y1: 1,
        yref: "paper",
        line: { color: colour("neutral"), width: 1, dash: "dot" },
      })),
    },
    steps.length,
  );
}

// A dot for each similar row, beside the row's own attribution and its interval.
function drawSimilar(names, row, others, decimals, unit) {
  const order = row.order.slice(0, MOST_BARS);
  const places = order.map((_, i) => i);
  const own = order.map((f) => row.values[f]);
  const [low, high] = [row.lower, row.upper].map((bounds) => order.map((f) => bounds[f]));
  const dots = { x: [], y: [], text: [] };
  others.forEach((values, k) =>
    order.forEach((f, i) => {
      dots.x.push(values[f]);
      dots.y.push(i + 0.22);
      dots.text.push(`${escaped(names[f])}<br>similar row ${k + 1}: ${signedNumber(values[f], decimals)}`);
    }),
  );
  draw(
    "similar",
    [
      {
        type: "scatter",
        mode: "markers",
        x: own,
        y: places.map((i) => i - 0.12),
        marker: { symbol: "diamond", size: 9, color: own.map((value) => colour(value >= 0 ? "up" : "down")) },
        error_x: interval(low, own, high, true),
        hoverinfo: "text",
        hovertext: order.map((f) => `${escaped(names[f])}<br>this row: ${signedNumber(row.values[f], decimals)}`),
      },
      {
        type: "scatter",
        mode: "markers",
        x: dots.x,
        y: dots.y,
        marker: { symbol: "circle-open", size: 6, color: colour("ink") },
        hoverinfo: "text",
        hovertext: dots.text,
      },
    ],
    {
      yaxis: yAxis(order.map((f) => shortened(names[f], nameLength("similar")))),
      xaxis: xAxis("similar", "attribution", unit),
    },
    order.length,
  );
}
