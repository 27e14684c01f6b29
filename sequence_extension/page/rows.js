// A table whose rows can be chosen: a click anywhere in a row, or the arrow keys on the radio
// buttons, one of which stands in each row. Python is told the row's place, not where it is shown.

const FIND_FROM = 20; // rows, from which on a field to find some is worth its place

function make(tag, props = {}, ...children) {
  const node = Object.assign(document.createElement(tag), props);
  node.append(...children);
  return node;
}

function render({ model, el }) {
  const dead = Boolean(document.querySelector("body > marimo-code-hash"));
  const columns = model.get("columns");
  const numbers = model.get("numbers");
  const texts = model.get("rows");
  const group = `row-${Math.random()}`;
  let sorted = { column: -1, sign: 0 };

  const rows = texts.map((cells, place) => {
    const radio = make("input", {
      type: "radio", name: group, disabled: dead, checked: place === model.get("chosen"),
    });
    radio.onchange = () => { model.set("chosen", place); model.save_changes(); };
    const head = make("th", { scope: "row" }, make("label", {}, radio, cells[0]));
    const row = make("tr", {}, head, ...cells.slice(1).map((text, at) =>
      make("td", { textContent: text, className: numbers[at + 1] ? "number" : "" })));
    row.onclick = (event) => {
      if (event.target === radio || dead) return;
      event.preventDefault(); // a label's own click would come a second time
      radio.focus({ preventScroll: true });
      if (!radio.checked) radio.click();
    };
    return row;
  });
  const body = make("tbody", {}, ...rows);

  const key = (place, column) => {
    const text = texts[place][column];
    if (!numbers[column]) return text;
    return text === "" ? -Infinity : Number(text.replaceAll(",", "").replace("\u2212", "-"));
  };
  const heads = columns.map((name, column) => {
    const numeric = numbers[column] ? "number" : "";
    if (dead) return make("th", { scope: "col", textContent: name, className: numeric });
    const button = make("button", { type: "button", textContent: name });
    button.onclick = () => { // numbers from the largest, texts from A; then back; then as at first
      const start = numbers[column] ? -1 : 1;
      const sign = sorted.column !== column ? start : sorted.sign === start ? -start : 0;
      sorted = { column: sign ? column : -1, sign };
      const order = texts.map((_, place) => place);
      if (sign) {
        const keys = order.map((place) => key(place, column));
        order.sort((a, b) => sign * ((keys[a] > keys[b]) - (keys[a] < keys[b])));
      }
      body.append(...order.map((place) => rows[place]));
      heads.forEach((head, at) => {
        if (at === sorted.column) head.ariaSort = sign > 0 ? "ascending" : "descending";
        else head.removeAttribute("aria-sort");
      });
    };
    return make("th", { scope: "col", className: numeric }, button);
  });

  const bar = make("div", { className: "bar" });
  const label = model.get("label");
  if (!dead) bar.append(make("span", { textContent: `${label} A heading sorts.` }));
  if (!dead && rows.length > FIND_FROM) {
    const input = make("input", { type: "search" });
    const count = make("span");
    count.setAttribute("role", "status");
    input.oninput = () => {
      const wanted = input.value.toLowerCase();
      rows.forEach((row, place) => {
        row.hidden = !texts[place].some((text) => text.toLowerCase().includes(wanted));
      });
      const seen = rows.filter((row) => !row.hidden).length.toLocaleString("en");
      count.textContent = wanted ? `${seen} of ${rows.length.toLocaleString("en")} rows` : "";
    };
    bar.append(make("label", {}, "Find ", input), count);
  }
  const long = rows.length > FIND_FROM ? " long" : ""; // others stand whole
  const box = make("div", { className: `box${long}`, tabIndex: 0 }, make("table", {},
    make("thead", {}, make("tr", {}, ...heads)), body));
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", label);
  el.replaceChildren(make("div", { className: `row-table${dead ? "" : " live"}` }, bar, box));
}
export default { render };
