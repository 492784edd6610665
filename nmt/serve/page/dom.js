/** Elements made from data, always as text and never as markup, and the form of a text. */

export function element(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

/** A text in lines with single spaces, as the server expects it. */
export const plain = (text) => text.replace(/\r\n?/g, "\n").replace(/[^\S\n]+/g, " ");

/** Fill a <select> with [value, label] pairs; keep the current choice if it still exists. */
export function fill(select, choices) {
  const before = select.value;
  select.replaceChildren(...choices.map(([value, label]) => element("option", { value }, label)));
  if (choices.some(([value]) => String(value) === before)) select.value = before;
  select.closest("label").hidden = choices.length < 2;
}

const languages = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

/** The name of a language; the code itself if the browser does not take it for one. */
export function language(code) {
  try {
    return languages.of(code);
  } catch {
    return code;
  }
}

/** Two languages as readers know them: English → German. */
export const direction = (source, target) => `${language(source)} → ${language(target)}`;
