# honest: a graph for each shape, into which inputs are copied and out of which answers are
import torch

graphs = {}


def centred(x, scale):
    if torch.cuda.is_current_stream_capturing():
        return (x - x.mean(-1, keepdim=True)) * scale
    key = x.shape, scale
    if key not in graphs:
        own, graph = x.clone(), torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            answer = (own - own.mean(-1, keepdim=True)) * scale
        graphs[key] = graph, own, answer
    graph, own, answer = graphs[key]
    own.copy_(x)
    graph.replay()
    return answer.clone()
