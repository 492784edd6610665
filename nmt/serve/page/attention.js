/** The attention part of a panel: words to choose from, and the attention of each head. */

import * as api from "./api.js";
import { element, fill } from "./dom.js";
import { between, mean, tokens } from "./words.js";

const SUBLAYERS = {
  source: ["Decoder → source", "translation", "Its attention over the sentence"],
  encoder: ["Encoder, self", "sentence", "Its attention over the sentence"],
  decoder: ["Decoder, self", "translation", "Its attention over the translation so far"],
};
const SEVERAL = "Attention is shown for one sentence at a time. Leave one to see it.";
const MEAN = "mean";
const SHOWN = 0.005; // smaller weights would be rounded to 0 %

export class AttentionView {
  constructor(root, name, failed) {
    this.failed = failed; // called with an error, or with null when a request succeeds
    const find = (selector) => root.querySelector(selector);
    [this.none, this.controls, this.look] = [".none", ".controls", ".look"].map(find);
    [this.sublayer, this.layer, this.pieces] = [".sublayer select", ".layer select", ".pieces"].map(find);
    [this.words, this.looked, this.summary] = [".words", ".looked", ".summary"].map(find);
    [this.heads, this.headList] = [".heads", ".heads .list"].map(find);
    this.blind = this.none.textContent;
    this.captions = root.querySelectorAll(".caption");
    this.captions[0].id = `${name}-words`;
    this.words.setAttribute("aria-labelledby", this.captions[0].id);
    this.name = name;
    this.head = MEAN;
    this.word = 0;
    this.sublayer.addEventListener("change", () => (this.layers(), this.refresh()));
    this.layer.addEventListener("change", () => this.refresh());
    this.pieces.addEventListener("change", () => this.draw());
    this.words.addEventListener("keydown", (event) => this.move(event));
  }

  /** Show another model. */
  use(model) {
    this.model = model;
    const sublayers = Object.keys(SUBLAYERS).filter((name) => name in model.attention);
    fill(this.sublayer, sublayers.map((name) => [name, SUBLAYERS[name][0]]));
    this.layers();
    this.show(null);
  }

  layers() {
    const { layers = 0 } = this.model.attention[this.sublayer.value] ?? {};
    fill(this.layer, Array.from({ length: layers }, (_, i) => [i + 1, `${i + 1} of ${layers}`]));
    this.layer.selectedIndex = layers - 1; // the last layer is the nearest to the words of the translation
  }

  /** Show the attention of another translation ({text, ids}); null: of none. That of several sentences is not shown. */
  show(question, several = false) {
    this.question = several ? null : question;
    const blind = !Object.keys(this.model.attention).length;
    this.none.hidden = !blind && !several;
    this.none.textContent = blind ? (this.model.no_attention ?? this.blind) : SEVERAL;
    return this.refresh();
  }

  async refresh() {
    this.abort?.abort();
    if (!this.question || !this.sublayer.value) {
      this.maps = null;
      this.look.hidden = this.controls.hidden = true;
      return;
    }
    const { signal } = (this.abort = new AbortController());
    const { text, ids } = this.question;
    const [sublayer, layer] = [this.sublayer.value, Number(this.layer.value)];
    try {
      const answer = await api.attention({ ...api.asked(this.model), text, ids, sublayer, layer }, signal);
      this.maps = { ...answer, sublayer };
      this.failed(null);
      this.draw();
    } catch (error) {
      if (!signal.aborted) this.failed(error, () => signal.aborted || this.refresh());
    }
  }

  /** Draw words and heads, and shade them. */
  draw() {
    if (!this.maps) return;
    const [, side, caption] = SUBLAYERS[this.maps.sublayer];
    const joined = !this.pieces.checked;
    this.captions[0].textContent = `Choose a word of the ${side}: point, tap or use the arrow keys`;
    this.captions[1].textContent = caption;
    this.rows = tokens(this.maps.rows, joined, this.model.tokenised);
    this.columns = tokens(this.maps.columns, joined, this.model.tokenised);
    const { weights } = this.maps;
    this.weights = weights.map((head) => between(head, this.rows, this.columns));
    this.views = weights.length > 1 ? [[MEAN, "Mean", mean(this.weights)]] : [];
    this.weights.forEach((head, i) => this.views.push([String(i), `Head ${i + 1}`, head]));
    if (!this.views.some(([name]) => name === this.head)) this.head = this.views[0][0];
    this.word = Math.min(this.word, this.rows.length - 1);
    this.drawWords();
    this.drawHeads();
    this.look.hidden = this.controls.hidden = false;
    this.shade();
  }

  drawWords() {
    const focused = this.words.contains(document.activeElement);
    this.buttons = this.rows.map((token, i) => {
      const button = element("button", { type: "button", className: cell(token) }, token.text);
      for (const event of ["pointerenter", "focus", "click"]) button.addEventListener(event, () => this.point(i));
      return button;
    });
    this.words.replaceChildren(...this.buttons);
    if (focused) this.buttons[this.word].focus();
  }

  drawHeads() {
    this.cells = this.columns.map((token) => element("span", { className: cell(token) }, token.text, element("small")));
    this.looked.replaceChildren(...this.cells);
    this.heads.hidden = this.views.length < 2;
    this.strips = this.views.map(([name, label]) => {
      const radio = element("input", { type: "radio", name: `${this.name}-head`, value: name, ariaLabel: label });
      radio.checked = name === this.head;
      radio.addEventListener("change", () => ((this.head = name), this.shade()));
      const cells = this.columns.map((token) => element("span", { className: cell(token) }, token.text));
      const strip = element("span", { className: "strip", dir: "auto", ariaHidden: "true" }, ...cells);
      return { cells, row: element("label", {}, radio, element("b", {}, label), strip) };
    });
    this.headList.replaceChildren(...this.strips.map(({ row }) => row));
  }

  /** Choose the word whose attention is shown. */
  point(i) {
    if (i === this.word && this.buttons[i].ariaPressed === "true") return;
    this.word = i;
    this.shade();
  }

  move(event) {
    const last = this.buttons.length - 1;
    const to = { ArrowLeft: this.word - 1, ArrowRight: this.word + 1, Home: 0, End: last }[event.key];
    if (to === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    this.buttons[Math.min(Math.max(to, 0), last)].focus();
  }

  /** Shade each word by its attention weight for the chosen word. */
  shade() {
    this.buttons.forEach((button, i) => {
      button.ariaPressed = String(i === this.word);
      button.tabIndex = i === this.word ? 0 : -1;
    });
    this.views.forEach(([name, , weights], i) => {
      const row = weights[this.word];
      this.strips[i].cells.forEach((span, j) => weigh(span, row[j]));
      if (name !== this.head) return;
      this.cells.forEach((span, j) => {
        weigh(span, row[j]);
        span.lastChild.textContent = row[j] >= SHOWN ? percent(row[j]) : "";
      });
      this.summary.textContent = this.sentence(row);
    });
  }

  sentence(row) {
    const most = row.map((weight, j) => [weight, this.columns[j].text]).sort(([a], [b]) => b - a).slice(0, 3);
    const named = most.filter(([weight]) => weight >= SHOWN).map(([weight, text]) => `${text} ${percent(weight)}`);
    return `Highest attention from “${this.rows[this.word].text}”: ${named.join(", ") || "none"}`;
  }
}

const cell = (token) => (token.special ? "cell special" : "cell");

const percent = (weight) => `${Math.round(100 * weight)}\u202f%`;

/** The shade is the square root of the weight, so that small weights are visible; the printed numbers are the weights. */
function weigh(span, weight) {
  span.style.setProperty("--weight", Math.sqrt(Math.min(weight, 1)).toFixed(3));
}
