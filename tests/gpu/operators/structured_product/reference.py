"""A matrix product."""


def reference(x, weight):
    return x @ weight


def magnitude(x, weight):
    return x.abs() @ weight.abs()


def reduction(case):
    return case["inner"]


def inputs(case, draw):
    return {
        "x": draw.normal((case["rows"], case["inner"])),
        "weight": draw.normal((case["inner"], case["cols"]), 0.1),
    }


def cost(case):
    rows, inner, cols = case["rows"], case["inner"], case["cols"]
    size = 4 if case.dtype == "float32" else 2
    return size * (rows * inner + inner * cols + rows * cols), 2 * rows * inner * cols
