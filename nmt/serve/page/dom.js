/** Elements from data: always as text, never as markup. */

export function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

/** Fill a <select> with [value, label] pairs; keeps the choice if it is still there. */
export function fill(select, choices) {
  const before = select.value;
  select.replaceChildren(...choices.map(([value, label]) => element("option", { value }, label)));
  if (choices.some(([value]) => String(value) === before)) select.value = before;
  select.closest("label").hidden = choices.length < 2;
}

const languages = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });

export const language = (code) => languages.of(code);
