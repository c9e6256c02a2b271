"""What RocketMQ's tools and its dashboard ask of a broker (RocketMQ's AdminBrokerProcessor).

Each file has one subject, and a processor that answers its requests. What is kept of topics and
groups is the registry's; rates are counted in `broker/statistics`.
"""
