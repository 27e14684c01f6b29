// The editor of section 2: turns as chips that can be clicked, and as text fields.
// What is typed or clicked goes to Python as one state with a serial number; Python answers with
// a view of the same number. Nothing else is kept here but what the reader is doing right now.

const FIELDS = [
  ["history", "The observation", ""],
  ["edits", "Changes to the history", "7: 13; 8-9:; 10+: 14"],
  ["ob", "New observation tokens", "none"],
  ["ac", "Action tokens", "none"],
  ["logprobs", "Logprobs", "none reported"],
  ["reward", "Reward", "0"],
  ["masked", "Masked", ""],
];
const HISTORY = {
  extends: "carries the history over",
  edits: "edits the history",
  replaces: "replaces the history",
};
const WORDS = {
  held: "carried over", observation: "new observation", action: "action",
  masked: "action, masked", break: "differs here", end: "ends here", gap: "left out",
};
const LETTERS = { held: "O", break: "O", observation: "O", action: "A", masked: "A" };
const TYPING_MS = 300;

function make(tag, props = {}, ...children) {
  const { data, ...rest } = props;
  const node = Object.assign(document.createElement(tag), rest);
  Object.assign(node.dataset, data ?? {});
  node.append(...children);
  return node;
}

function render({ model, el }) {
  const dead = Boolean(document.querySelector("body > marimo-code-hash"));
  const scenarios = model.get("scenarios");
  const own = structuredClone(model.get("state"));
  let view = model.get("view");
  let serial = own.serial;
  let waiting = false; // for the answer to a click, which may change what is typed
  let timer = 0;
  let open = null; // the chip that is being changed: {turn, position, part, insert}
  const undo = [];
  const unfolded = new Set();

  const menu = make("select", { disabled: dead }, ...scenarios.map((item) =>
    make("option", { value: item.key, textContent: item.title })));
  const button = (text, action, title = "") =>
    make("button", { type: "button", textContent: text, title, onclick: action, disabled: dead });
  const back = button("Undo", () => {
    const last = undo.pop();
    if (!last) return;
    if (last.drafts.length !== own.drafts.length) unfolded.clear(); // other turns
    Object.assign(own, last);
    send(null, false);
    draw();
    if (back.disabled) reset.focus(); // else the focus would be lost
  });
  const reset = button("Reset", () => load(own.scenario), "All turns as loaded");
  const add = button("Add a turn", () => change(() => own.drafts.push({ ...view.next })));
  const lesson = make("p", { className: "lesson" });
  const turns = make("div");
  const outcome = make("div", { className: "outcome" });
  outcome.setAttribute("role", "status");
  menu.onchange = () => load(menu.value);
  add.className = "add";
  const bar = make("div", { className: "bar" }, make("label", {}, "Scenario ", menu), back, reset);
  el.replaceChildren(make("div", { className: `turns-editor${dead ? "" : " live"}` },
    ...(dead ? [] : [bar]), lesson, turns, ...(dead ? [] : [add]),
    make("div", { className: "foot" }, outcome)));

  function send(click, keep = true) {
    if (waiting && !click) { timer ||= setTimeout(retry, 50, keep); return; }
    serial += 1;
    waiting = Boolean(click);
    model.set("state", { serial, scenario: own.scenario, drafts: structuredClone(own.drafts), click });
    model.save_changes();
  }
  function retry(keep) { timer = 0; send(null, keep); }
  function remember() {
    undo.push(structuredClone({ scenario: own.scenario, drafts: own.drafts }));
    if (undo.length > 100) undo.shift();
    back.disabled = dead;
  }
  function change(action) { remember(); action(); open = null; send(null); draw(); }
  function load(key) {
    change(() => {
      if (own.scenario !== key) unfolded.clear();
      own.scenario = key;
      own.drafts = structuredClone(scenarios.find((item) => item.key === key).drafts);
    });
  }
  function act(click, label = open?.label) {
    if (dead || waiting) return;
    remember();
    open = click.what === "delete" ? { ...click, label, closed: true } : open;
    send(click);
  }

  // ---- one turn
  function field(turn, [name, label, placeholder]) {
    const draft = own.drafts[turn];
    const set = (value, wait) => {
      if (draft[name] === value) return;
      if (!timer) remember();
      draft[name] = value;
      clearTimeout(timer);
      timer = setTimeout(() => { timer = 0; send(null); }, wait);
    };
    let input;
    if (name === "history") {
      input = make("select", {}, ...Object.entries(HISTORY).map(([value, text]) =>
        make("option", { value, textContent: text })));
      input.value = draft.history;
      input.onchange = () => { set(input.value, 0); hide(turn); };
    } else if (name === "masked") {
      input = make("input", { type: "checkbox", checked: draft.masked });
      input.onchange = () => set(input.checked, 0);
    } else {
      input = make("input", { type: "text", value: draft[name], placeholder });
      input.spellcheck = false;
      input.oninput = () => set(input.value, TYPING_MS);
    }
    input.disabled = dead;
    return make("div", { className: `field ${name}`, data: { field: name } },
      make("label", {}, make("span", { textContent: label }), input),
      make("div", { className: "issues" }));
  }
  function hide(turn) {
    const box = turns.children[turn];
    for (const name of ["history", "edits"]) {
      const part = box.querySelector(`[data-field=${name}]`);
      part.hidden = turn === 0 || (name === "edits" && own.drafts[turn].history !== "edits");
    }
  }
  function turnBox(turn) {
    const fields = make("div", { className: "fields" },
      ...FIELDS.map((entry) => field(turn, entry)));
    const fold = make("details", { open: unfolded.has(turn) },
      make("summary", { textContent: `Turn ${turn} as text, logprobs, reward` }), fields);
    fold.ontoggle = () => unfolded[fold.open ? "add" : "delete"](turn);
    const remove = button(`Remove turn ${turn}`, () => {
      change(() => {
        own.drafts.splice(turn, 1);
        unfolded.clear();
      });
      const next = turns.children[Math.min(turn, own.drafts.length - 1)].querySelector(".under > button");
      (next.disabled ? add : next).focus();
    });
    remove.disabled = own.drafts.length === 1;
    return make("fieldset", {},
      make("legend", {}, `Turn ${turn} `, make("span")),
      Object.assign(make("div", { className: "chips" }), { onkeydown: (e) => keys(e, turn) }),
      make("div", { className: "hand" }),
      ...(dead ? [] : [make("div", { className: "under" }, fold, remove)]));
  }
  function draw() {
    menu.value = own.scenario;
    back.disabled = dead || !undo.length;
    add.disabled = dead || own.drafts.length >= model.get("most");
    turns.replaceChildren(...own.drafts.map((_, turn) => turnBox(turn)));
    if (!dead) own.drafts.forEach((_, turn) => hide(turn)); // else no field
    show();
    hands();
  }

  // ---- chips
  function chipOf(turn, chip, letter, part) {
    const fixed = dead || chip.kind === "gap" || chip.kind === "end";
    const known = chip.text !== "";
    const node = make(fixed ? "span" : "button", {
      className: `chip ${chip.kind}`,
      title: `${WORDS[chip.kind]}: ${chip.label} at position ${chip.position}`,
      data: { position: chip.position, part, label: chip.label },
    },
    make("small", {}, make("b", { textContent: letter }),
      chip.kind === "gap" || chip.kind === "end" ? "" : String(chip.position)),
    make("span", { textContent: known ? chip.text : chip.label }),
    make("i", { textContent: known ? chip.label : "" }));
    if (!fixed) {
      node.type = "button";
      node.tabIndex = -1;
      node.setAttribute("aria-label",
        `Token ${`${chip.label} ${chip.text}`.trim()}, ${WORDS[chip.kind]}, position ${chip.position}`);
      node.onclick = () => lift({ turn, position: chip.position, part, label: chip.label });
    }
    return node;
  }
  function adder(turn, position, part) {
    const node = make("button", {
      type: "button", className: "chip adder", textContent: "+", tabIndex: -1,
      title: `Add to the ${part}`, data: { position, part },
      onclick: () => lift({ turn, position, part, label: "", insert: true }),
    });
    node.setAttribute("aria-label", `Add a token to the ${part} of turn ${turn}`);
    return node;
  }
  function chips(turn, shown) {
    const nodes = [];
    let previous = "";
    let inAction = false;
    for (const chip of shown.chips) {
      const acts = chip.kind === "action" || chip.kind === "masked";
      if (acts && !inAction && !dead) nodes.push(adder(turn, shown.observation, "observation"));
      inAction ||= acts;
      const group = chip.kind === "break" ? "observation" : chip.kind;
      const mark = chip.kind === "break" || chip.kind === "end" ? "✕"
        : group === previous ? "" : LETTERS[chip.kind] ?? "";
      previous = group;
      nodes.push(chipOf(turn, chip, mark, acts ? "action" : "observation"));
    }
    if (!dead && shown.readable) {
      if (!inAction) nodes.push(adder(turn, shown.observation, "observation"));
      nodes.push(adder(turn, shown.observation + shown.action, "action"));
    }
    const first = nodes.find((node) => node.tagName === "BUTTON");
    if (first) first.tabIndex = 0;
    return nodes;
  }
  function keys(event, turn) {
    const row = [...turns.children[turn].querySelectorAll(".chips button")];
    const at = row.indexOf(event.target);
    if (at < 0) return;
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const goal = event.key === "Home" ? 0 : event.key === "End" ? row.length - 1 : at + step;
    if (row[goal]) {
      row[at].tabIndex = -1;
      row[goal].tabIndex = 0;
      row[goal].focus();
      event.preventDefault();
    } else if (event.key === "Delete" || event.key === "Backspace") {
      event.preventDefault();
      const { position, part, label } = row[at].dataset;
      if (!row[at].classList.contains("adder")) {
        act({ turn, position: Number(position), part, what: "delete", text: "" }, label);
      }
    }
  }
  function settle() { // a click that failed is over: the figures are current again
    if (!view.click_issue) return;
    view = { ...view, click_issue: "" };
    send(null);
  }
  function lift(place) {
    open = place;
    settle();
    hands();
    turns.children[place.turn].querySelector(".hand input")?.select();
  }
  function hands() { // the row in which a token is changed
    [...turns.children].forEach((box, turn) => {
      const hand = box.querySelector(".hand");
      if (!open || open.closed || open.turn !== turn) { hand.replaceChildren(); return; }
      const { position, part } = open;
      const input = make("input", { type: "text", value: open.label });
      input.oninput = () => { open.label = input.value; }; // stays, whatever Python answers
      input.setAttribute("aria-invalid", String(Boolean(view.click_issue)));
      input.setAttribute("aria-label", `Token at position ${position} of turn ${turn}`);
      const go = (what) => act({ turn, position, part, what, text: input.value });
      const close = () => { const last = open; open = null; settle(); hands(); focus(last); };
      input.onkeydown = (event) => {
        if (event.key === "Enter") go(open.insert ? "insert" : "replace");
        if (event.key === "Escape") close();
      };
      const buttons = open.insert ? [button("Insert", () => go("insert"))] : [
        button("Replace", () => go("replace")),
        button("Insert before", () => go("insert")),
        button("Delete", () => go("delete"))];
      hand.replaceChildren(
        make("span", { textContent: `Position ${position}${open.insert ? ", new token" : ""} ` }), input,
        make("small", { textContent: "a token id, or ids with spaces" }),
        ...buttons, button("Cancel", close),
        make("p", { className: "issue bad", innerHTML: view.click_issue ?? "" }));
    });
  }
  function focus(place) {
    if (!place) return;
    const row = [...turns.children[place.turn]?.querySelectorAll(".chips button") ?? []];
    const at = row.findIndex((node) => Number(node.dataset.position) === place.position
      && node.dataset.part === place.part);
    row[Math.max(at, 0)]?.focus();
  }

  // ---- what Python says
  function show() {
    lesson.innerHTML = view.lesson;
    outcome.innerHTML = view.outcome;
    outcome.classList.toggle("stale", view.stale);
    view.turns.forEach((shown, turn) => {
      const box = turns.children[turn];
      if (!box) return;
      box.querySelector("legend span").textContent = shown.verdict;
      box.classList.toggle("splits", shown.splits);
      const row = box.querySelector(".chips");
      row.setAttribute("role", "group");
      row.setAttribute("aria-label",
        `Tokens of turn ${turn}: arrow keys move, Enter changes, Delete removes`);
      row.classList.toggle("old", !shown.readable);
      const drawn = JSON.stringify([shown.chips, shown.observation, shown.action]);
      if (shown.readable && row.drawn !== drawn) { // else: what was there last
        row.drawn = drawn;
        row.replaceChildren(...chips(turn, shown));
      }
      for (const part of box.querySelectorAll("[data-field]")) {
        const html = shown.issues[part.dataset.field] ?? "";
        const issues = part.querySelector(".issues");
        if (issues.innerHTML !== html) issues.innerHTML = html;
        part.querySelector("input, select").setAttribute("aria-invalid", String(html.includes("issue bad")));
        if (html) { part.hidden = false; box.querySelector("details").open = true; }
      }
    });
  }
  model.on("change:view", () => {
    const next = model.get("view");
    if (next.serial !== serial) return; // the answer to something older
    view = next;
    const clicked = waiting;
    waiting = false;
    if (!clicked) {
      show();
      el.querySelector(".hand .issue")?.replaceChildren(); // of a click that is over
      el.querySelector(".hand input")?.setAttribute("aria-invalid", "false");
      return;
    }
    if (view.click_issue) {
      undo.pop();
      back.disabled = dead || !undo.length;
      if (open?.closed) { // a deletion: why it was refused stands where the token is changed
        const { turn, position, part, label } = open;
        open = { turn, position, part, label };
      }
      show();
      hands();
      const input = el.querySelector(".hand input");
      input?.focus();
      return;
    }
    const place = open;
    open = null;
    own.drafts = structuredClone(view.drafts);
    draw();
    focus(place);
  });
  draw();
}
export default { render };
