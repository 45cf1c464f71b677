// How long to wait before the n-th try again: doubling from half a second to ten, spread by chance.

export const backoff = (failures) =>
  Math.min(10_000, 500 * 2 ** (failures - 1)) * (0.75 + Math.random() / 2);
