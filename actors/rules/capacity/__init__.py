"""Who gets which resource: model permits, cache, processes, nodes and shards."""
