"""Everything times a number."""


def reference(x, by):
    return x * by


def magnitude(x, by):
    return (x * by).abs()


def reduction(case):
    return 1


def inputs(case, draw):
    return {"x": draw.normal((case["rows"], case["cols"]))}


def cost(case):
    return 8 * case["rows"] * case["cols"], case["rows"] * case["cols"]
