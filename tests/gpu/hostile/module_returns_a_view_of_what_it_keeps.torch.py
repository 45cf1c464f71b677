# trick: a module that returns a view of one buffer again and again
# row: 29
# expect: failed/ALIASED_OUTPUT
class ModelNew(torch.nn.Module):
    def __init__(self, rows, cols):
        super().__init__()
        self.register_buffer("kept", torch.empty(rows + 1, cols))

    def forward(self, x, scale):
        return self.kept[1:].copy_(right(x, scale))
