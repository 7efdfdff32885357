// Reading the data, writing numbers, and building elements: text is only ever set as text.

function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

function unpack(id) {
  const packed = new Blob([bytesOf(document.getElementById(id).textContent)]);
  return new Response(packed.stream().pipeThrough(new DecompressionStream("gzip")));
}

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "class") made.className = value;
    else if (name === "width") made.style.width = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

function byId(id) {
  return document.getElementById(id);
}

function counted(number) {
  return number.toLocaleString("en-US");
}

// The same formats as gpec._numbers; decimals come with the data.
function plainNumber(number, decimals) {
  const text = decimals === null ? number.toExponential(2).replace(/(\D)(\d)$/, "$10$2") : number.toFixed(decimals);
  return (Number(text) === 0 ? text.replace(/^-/, "") : text).replaceAll("-", "−");
}

function signedNumber(number, decimals) {
  const text = plainNumber(number, decimals);
  return number > 0 && /[1-9]/.test(text) ? "+" + text : text;
}

function percent(share) {
  const text = (100 * share).toFixed(0);
  return (share < 1 && text === "100" ? ">99" : share > 0 && text === "0" ? "<1" : text) + "%";
}

function shortened(text, length) {
  if (text.length <= length) return text;
  const tail = Math.floor((length - 1) / 3);
  return text.slice(0, length - 1 - tail).trimEnd() + "…" + text.slice(text.length - tail).trimStart();
}

function valueOf(text) {
  return text === null ? element("span", { class: "missing" }, MISSING) : text;
}

function meter(share, kind = "") {
  const filled = element("i", { width: 100 * share + "%" });
  return element("span", { class: "meter " + kind, "aria-hidden": "true" }, filled);
}

// Fill a table: columns are {title, number, sort}, lines lists of the cells' contents.
function fillTable(table, columns, lines, onSort = null) {
  const heads = columns.map((column) => {
    const head = element("th", { scope: "col", role: "columnheader", class: kindOf(column) });
    if (onSort && column.key !== undefined) {
      const button = element("button", { type: "button" }, column.title);
      button.addEventListener("click", () => onSort(column));
      head.append(button);
      head.setAttribute("aria-sort", column.sorted || "none");
    } else head.append(column.title);
    return head;
  });
  table.tHead.replaceChildren(element("tr", { role: "row" }, ...heads));
  const rows = lines.map((cells) =>
    element("tr", { role: "row" }, ...cells.map((cell, j) => cellOf(cell, columns[j]))),
  );
  table.tBodies[0].replaceChildren(...rows);
  return rows;
}

function cellOf(content, column) {
  return element("td", { role: "cell", class: kindOf(column) }, ...[content].flat());
}

function kindOf(column) {
  return column.number ? "number" : column.kind || "";
}
