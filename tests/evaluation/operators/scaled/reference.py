"""Each column scaled, every element shifted."""


def reference(x, weight, shift):
    return x * weight + shift


def magnitude(x, weight, shift):
    return (x * weight).abs() + abs(shift)


def reduction(case):
    return 1


def inputs(case, draw):
    return {
        "x": draw.normal((case["rows"], case["cols"])),
        "weight": draw.uniform((case["cols"],), 0.5, 1.5),
    }


def cost(case):
    rows, cols = case["rows"], case["cols"]
    return (2 * rows * cols + cols) * 4, 2 * rows * cols
