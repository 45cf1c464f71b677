# trick: a module that works in the memory of its input and returns that
# row: 28
# expect: failed/ALIASED_OUTPUT|failed/INPUT_MUTATED
class ModelNew(torch.nn.Module):
    def forward(self, x, scale):
        return x.sub_(x.mean(-1, keepdim=True)).mul_(scale)
