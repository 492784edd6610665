/** Subword pieces joined to words, and attention weights between words. */

const START = "▁"; // sentencepiece's mark of the start of a word
const SPECIAL = new Set(["<s>", "</s>", "<pad>"]);
const ENTITIES = {
  "&amp;": "&", "&lt;": "<", "&gt;": ">", "&apos;": "'", "&quot;": '"', "&#124;": "|", "&#91;": "[", "&#93;": "]",
};

/**
 * Make the tokens that the page shows: one per piece, or, if joined, one per word.
 * @returns {{text: string, special: boolean, places: number[]}[]} places: the indices of a token's pieces.
 */
export function tokens(pieces, joined, tokenised) {
  const result = [];
  pieces.forEach((piece, place) => {
    const special = SPECIAL.has(piece);
    const last = result.at(-1);
    if (joined && last && !special && !last.special && !piece.startsWith(START)) {
      last.text += piece;
      last.places.push(place);
    } else result.push({ text: piece, special, places: [place] });
  });
  for (const token of result) {
    if (joined) token.text = token.text.replaceAll(START, "") || START;
    if (tokenised) token.text = token.text.replace(/&(?:amp|lt|gt|apos|quot|#124|#91|#93);/g, (name) => ENTITIES[name]);
  }
  return result;
}

/**
 * Convert a head's weights between pieces to weights between tokens: the mean over the attending pieces, the sum over
 * the attended pieces (Clark and others 2019, section 4.1). The sum of a row stays the same.
 */
export function between(weights, rows, columns) {
  return rows.map((row) =>
    columns.map((column) =>
      sum(row.places.map((i) => sum(column.places.map((j) => weights[i][j])))) / row.places.length));
}

/** Average the weights of several heads. */
export const mean = (heads) =>
  heads[0].map((row, i) => row.map((_, j) => sum(heads.map((head) => head[i][j])) / heads.length));

const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);

/** Return for each word whether it is outside the longest common subsequence with another text. */
export function differing(words, others) {
  const length = Array.from({ length: words.length + 1 }, () => new Array(others.length + 1).fill(0));
  for (let i = words.length - 1; i >= 0; i--)
    for (let j = others.length - 1; j >= 0; j--)
      length[i][j] = words[i] === others[j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
  const differs = new Array(words.length).fill(true);
  for (let i = 0, j = 0; i < words.length && j < others.length;) {
    if (words[i] === others[j]) (differs[i] = false), i++, j++;
    else if (length[i + 1][j] >= length[i][j + 1]) i++;
    else j++;
  }
  return differs;
}
