/** The page: one text, and the panel of one model or of two side by side. */

import * as api from "./api.js";
import { element, language, plain } from "./dom.js";
import { Panel } from "./panel.js";
import { offer } from "./upload.js";

const get = (id) => document.getElementById(id);
const [text, compare, count, method] = ["text", "compare", "count", "method"].map(get);
let seed = 0; // another one draws other samples

/** The settings of the search, as the server expects them. */
const settings = () => ({
  prefix: get("prefix").value.trim(),
  method: method.value,
  ...(method.value === "beam" ? {} : { temperature: amount("temperature"), top_p: amount("top_p"), seed }),
});

const amount = (id) => get(id).valueAsNumber || 1;

/** The text as the server expects it: lines with single spaces. */
const line = () => plain(text.value).trim();

async function start() {
  const { models, limits } = await api.models();
  const panels = ["first", "second"].map((name) => new Panel(name, models, settings, changed));
  const live = () => (compare.checked ? panels : panels.slice(0, 1));

  function changed() {
    const [first, second] = panels;
    const both = compare.checked && first.shown && second.shown && first.model.target === second.model.target;
    first.compare(both ? second.shown : "");
    second.compare(both ? first.shown : "");
    const { source } = first.model;
    get("text-label").textContent = language(source);
    text.lang = source;
    get("swap").hidden = !reverse();
    const known = first.model.pairs[0].startsWith(`${source}-`) ? first.model.examples : [];
    get("examples").replaceChildren(...known.map((example) => {
      const button = element("button", { type: "button", lang: source, dir: "auto" }, example);
      button.addEventListener("click", () => write(example));
      return button;
    }));
  }

  /** The places of a model of the opposite direction, if possible the same one, and of its pair; null without any. */
  function reverse() {
    const { name, source, target } = panels[0].model;
    const places = models.map((model, i) => [i, model.pairs.indexOf(`${target}-${source}`)]).filter(([, pair]) => pair >= 0);
    return places.find(([i]) => models[i].name === name) ?? places[0] ?? null;
  }

  function write(words) {
    text.value = words;
    type();
  }

  function swap() {
    const words = panels[0].shown;
    panels[0].use(...reverse());
    write(words);
  }

  function type() {
    fit();
    const words = line() ? line().split(/\s+/).length : 0;
    const bytes = new TextEncoder().encode(line()).length;
    const near = words > 0.8 * limits.words || bytes > 0.8 * limits.bytes;
    count.textContent = near ? `${words} of ${limits.words} words, ${bytes} of ${limits.bytes} bytes` : "";
    for (const panel of live()) panel.translate(line());
  }

  function arrange() {
    get("panels").replaceChildren(...live().map((panel) => panel.root));
    get("panels").classList.toggle("two", compare.checked);
    if (compare.checked) panels[1].translate(line(), 0);
    changed();
  }

  function change() {
    for (const control of document.querySelectorAll(".sampled")) control.hidden = method.value === "beam";
    for (const panel of live()) panel.translate(line());
  }

  get("compare-switch").hidden = models.length < 2;
  panels[0].use(0);
  panels[1].use(Math.min(1, models.length - 1));
  text.addEventListener("input", type);
  compare.addEventListener("change", arrange);
  get("swap").addEventListener("click", swap);
  offer(() => panels[0].model, limits);
  for (const id of ["prefix", "method", "temperature", "top_p"]) get(id).addEventListener("input", change);
  get("again").addEventListener("click", () => (seed++, change()));
  arrange();
  type();
}

/** Fit the height of the text field to the text. */
function fit() {
  text.style.height = "auto";
  text.style.height = `${text.scrollHeight}px`;
}

start().catch((error) => (get("trouble").textContent = error.message));
