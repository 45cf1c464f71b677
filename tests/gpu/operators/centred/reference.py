"""Rows less their mean, scaled."""


def reference(x, scale):
    return (x - x.mean(dim=-1, keepdim=True)) * scale


def magnitude(x, scale):
    return (x.abs() + x.abs().mean(dim=-1, keepdim=True)) * abs(scale)


def reduction(case):
    return case["cols"]


def inputs(case, draw):
    return {"x": draw.normal((case["rows"], case["cols"]))}


def cost(case):
    return 8 * case["rows"] * case["cols"], 3 * case["rows"] * case["cols"]
