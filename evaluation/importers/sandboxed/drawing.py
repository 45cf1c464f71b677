"""UNTRUSTED: an input function whose random numbers come from the judge's generator."""

from __future__ import annotations

import ast

from evaluation.importers.sandboxed.observation import Unsupported


class _Drawn(ast.NodeTransformer):
    """Replaces `torch.rand`, `randn`, `randint`, `randperm` and `x.uniform_` by calls of `draw`."""

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "uniform_":
            return self._filled(node.func.value, node)
        match ast.unparse(node.func):
            case "torch.rand":
                return self._call(
                    "uniform", self._shape(node), ast.Constant(0.0), ast.Constant(1.0)
                )
            case "torch.randn":
                return self._call("normal", self._shape(node))
            case "torch.randn_like":
                return self._call("normal", ast.Attribute(node.args[0], "shape", ast.Load()))
            case "torch.rand_like":
                like = ast.Attribute(node.args[0], "shape", ast.Load())
                return self._call("uniform", like, ast.Constant(0.0), ast.Constant(1.0))
            case "torch.randint":
                return self._integers(node)
            case "torch.randperm":
                shape = ast.Tuple(node.args[:1], ast.Load())
                keys = self._call("uniform", shape, ast.Constant(0.0), ast.Constant(1.0))
                return ast.Call(ast.Attribute(keys, "argsort", ast.Load()), [], [])
        return node

    @staticmethod
    def _call(method: str, *arguments: ast.expr) -> ast.expr:
        function = ast.Attribute(ast.Name("draw", ast.Load()), method, ast.Load())
        return ast.Call(function, list(arguments), [])

    @staticmethod
    def _shape(node: ast.Call) -> ast.expr:
        named = {k.arg: k.value for k in node.keywords}
        if "size" in named:
            return named["size"]
        if len(node.args) == 1 and isinstance(node.args[0], ast.Tuple | ast.List | ast.Name):
            return ast.parse(f"torch.empty({ast.unparse(node.args[0])}).shape", mode="eval").body
        return ast.Tuple(list(node.args), ast.Load())

    def _filled(self, tensor: ast.expr, node: ast.Call) -> ast.expr:
        """Return the call that copies uniform numbers into a tensor."""
        if len(node.args) not in (0, 2):
            raise Unsupported("draws uniform numbers without both bounds")
        low, high = node.args or (ast.Constant(0.0), ast.Constant(1.0))
        shape = ast.Attribute(tensor, "shape", ast.Load())
        copy = ast.Attribute(tensor, "copy_", ast.Load())
        return ast.Call(copy, [self._call("uniform", shape, low, high)], [])

    def _integers(self, node: ast.Call) -> ast.expr:
        named = {k.arg: k.value for k in node.keywords}
        values = list(node.args)
        size = named.get("size") or values.pop()
        low = named.get("low") or (values[0] if len(values) > 1 else ast.Constant(0))
        high = named.get("high") or (values[-1] if values else None)
        if high is None:
            raise Unsupported("draws integers without a bound")
        return self._call("integers", size, low, high)


def drawn_source(lines: list[str]) -> list[str]:
    """Return the lines of an input function with the judge's generator, named `draw`."""
    tree = _Drawn().visit(ast.parse("\n".join(lines)))
    return ast.unparse(ast.fix_missing_locations(tree)).splitlines()
