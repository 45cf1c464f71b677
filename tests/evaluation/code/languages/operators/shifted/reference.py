"""Every column of x shifted by its bias, then scaled."""


def reference(x, bias, by):
    return (x + bias) * by


def magnitude(x, bias, by):
    return (x.abs() + bias.abs()) * abs(by)


def reduction(case):
    return 1


def inputs(case, draw):
    return {
        "x": draw.normal((case["rows"], case["cols"])),
        "bias": draw.normal((case["cols"],)),
    }


def cost(case):
    return 8 * case["rows"] * case["cols"], 2 * case["rows"] * case["cols"]
