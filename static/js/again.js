// Work that is never under way twice: asked for meanwhile, it is done once more when it has ended.

/** `work()` as such a function. With `pause`, so many milliseconds go by before it begins, for what
 * comes in a crowd to be dealt with at once. */
export function again(work, pause = 0) {
  let asked = false;
  let underWay = false;
  return async () => {
    asked = true;
    if (underWay) return;
    underWay = true;
    try {
      while (asked) {
        if (pause) await new Promise((resolve) => setTimeout(resolve, pause));
        asked = false;
        await work();
      }
    } finally {
      underWay = false;
    }
  };
}
