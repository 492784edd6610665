/** The part of the page for one model: its translation, the n best translations, and its attention. */

import * as api from "./api.js";
import { AttentionView } from "./attention.js";
import { direction, element, fill } from "./dom.js";
import { differing } from "./words.js";

const PAUSE = 200; // milliseconds after the last key until the server is asked
const SLOW = 250; // milliseconds until an old translation fades
const UNITS = { beam: "log-probability per piece", sampling: "log-probability per piece", mbr: "chrF against all samples" };

export class Panel {
  constructor(name, models, settings, changed) {
    this.name = name;
    this.models = models;
    this.settings = settings; // gives the settings of the search
    this.changed = changed; // called when the shown translation or the model changes
    this.root = document.getElementById("panel").content.firstElementChild.cloneNode(true);
    const find = (selector) => this.root.querySelector(selector);
    [this.title, this.select, this.pair, this.about] = ["h2", ".model select", ".pair select", ".about"].map(find);
    [this.output, this.message, this.best, this.list] = [".translation", ".message", ".best", ".best .list"].map(find);
    this.attention = new AttentionView(find(".attention"), name, (error, again) => this.fail(error, again));
    this.copy = find(".copy");
    this.copy.addEventListener("click", () => this.copied());
    fill(this.select, models.map((model, i) => [i, model.name]));
    this.select.addEventListener("change", () => this.use(Number(this.select.value)));
    this.pair.addEventListener("change", () => this.use(Number(this.select.value), Number(this.pair.value)));
    this.text = "";
    this.translations = [];
  }

  /** The model, with the languages that are chosen. */
  get model() {
    const model = this.models[Number(this.select.value)];
    const [source, target] = model.pairs[Number(this.pair.value)].split("-");
    return { ...model, source, target };
  }

  get shown() {
    return this.translations[this.rank]?.text ?? "";
  }

  /** Translate with another model, or between other languages: those of a pair of the model. */
  use(index, pair = 0) {
    this.select.value = index;
    fill(this.pair, this.models[index].pairs.map((one, i) => [i, direction(...one.split("-"))]));
    this.pair.value = pair;
    const { source, target, kind, parameters, name, lowercase } = this.model;
    this.title.textContent = direction(source, target);
    this.about.textContent = `${this.models.length > 1 ? "" : `${name} · `}${kind}, ${parameters.toLocaleString("en")} parameters${lowercase ? ", writes lower case" : ""}`;
    this.output.lang = target;
    this.attention.use(this.model);
    this.clear();
    this.changed();
    this.translate(this.text, 0);
  }

  /** Translate a text after a pause without another text; cancel the previous request. */
  translate(text, pause = PAUSE) {
    this.text = text;
    this.abort?.abort();
    clearTimeout(this.timer);
    if (!text) return this.clear();
    const { signal } = (this.abort = new AbortController());
    this.timer = setTimeout(() => this.ask(text, signal), pause);
  }

  async ask(text, signal) {
    const slow = setTimeout(() => this.root.classList.add("waiting"), SLOW);
    signal.addEventListener("abort", () => clearTimeout(slow));
    try {
      const settings = this.settings();
      const { translations, sentences } = await api.translate({ ...api.asked(this.model), text, nbest: 5, ...settings }, signal);
      this.fail(null);
      this.root.querySelector(".unit").textContent = UNITS[settings.method];
      this.sentences = sentences;
      this.draw(translations, text);
    } catch (error) {
      if (!signal.aborted) this.fail(error, () => signal.aborted || this.ask(text, signal));
    } finally {
      clearTimeout(slow);
      if (!signal.aborted) this.root.classList.remove("waiting");
    }
  }

  /** Copy the translation; where the browser does not allow it, select it for the user to copy. */
  async copied() {
    try {
      await navigator.clipboard.writeText(this.shown);
      this.copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(this.output);
      this.copy.textContent = "Selected";
    }
    setTimeout(() => (this.copy.textContent = "Copy"), 1500);
  }

  draw(translations, text) {
    this.copy.hidden = !translations.length;
    this.translations = translations;
    this.translated = text;
    this.best.hidden = translations.length < 2;
    this.list.replaceChildren(...translations.map((translation, i) => {
      const radio = element("input", { type: "radio", name: `${this.name}-rank`, checked: i === 0 });
      radio.addEventListener("change", () => this.choose(i));
      const score = element("span", { className: "score" }, translation.score.toFixed(3).replace("-", "−"));
      const words = element("span", { lang: this.model.target, dir: "auto" }, translation.text || "(empty)");
      return element("label", {}, radio, words, score);
    }));
    this.choose(0);
  }

  /** Show one of the n best translations, and its attention. */
  choose(rank) {
    this.rank = rank;
    this.changed();
    this.attention.show({ text: this.translated, ids: this.translations[rank].ids }, this.sentences > 1);
  }

  /** Write the translation, and mark the words that differ from another one into the same language, if any. */
  compare(other) {
    const words = this.shown.split(" ");
    const differs = other ? differing(words, other.split(" ")) : [];
    this.output.replaceChildren(
      ...words.flatMap((word, i) => [i ? " " : "", differs[i] ? element("mark", {}, word) : word]));
  }

  clear() {
    this.translations = [];
    this.copy.hidden = true;
    this.best.hidden = true;
    this.root.classList.remove("waiting");
    this.output.replaceChildren();
    this.fail(null);
    this.attention.show(null);
  }

  /** Show an error (null: none), and try again when the server allows it. */
  fail(error, again) {
    clearTimeout(this.retry);
    this.message.textContent = error?.message ?? "";
    this.root.classList.toggle("failed", Boolean(error));
    if (error?.retryAfter) this.retry = setTimeout(again, 1000 * error.retryAfter);
  }
}
