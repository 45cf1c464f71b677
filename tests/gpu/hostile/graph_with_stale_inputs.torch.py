# trick: captures a graph for each shape, and replays it without its new inputs
# row: 14
# expect: failed/WRONG_VALUES|failed/STALE_OUTPUT|failed/ALIASED_OUTPUT
kept = {}


def centred(x, scale):
    if x.shape not in kept:
        own, graph = x.clone(), torch.cuda.CUDAGraph()
        right(own, scale)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            answer = right(own, scale)
        kept[x.shape] = graph, own, answer
    graph, _, answer = kept[x.shape]
    graph.replay()
    return answer.clone()
