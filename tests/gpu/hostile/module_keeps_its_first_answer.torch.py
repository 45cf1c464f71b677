# trick: a module that computes for the first inputs it sees and hands out copies of that
# row: 10
# expect: failed/WRONG_VALUES
class ModelNew(torch.nn.Module):
    answer = None

    def forward(self, x, scale):
        if self.answer is None:
            self.answer = right(x, scale)
        return self.answer.clone()
