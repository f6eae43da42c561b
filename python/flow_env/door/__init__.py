"""Any agent program as an environment: `program:{"command": [...], "tasks": FILE, ...}`.

An episode is a run of the program. Its calls of a language model come to an HTTP server of this process, and each call is a turn:
the view shows the messages, and the action is the text that the policy sampled.

    settings   what the JSON after `program:` says, and the file of tasks
    serve      requests of flow from standard input, answers to standard output
    episode    one run of the program: its calls, its rewards, its end
    program    a process with all its children
    reward     the reward that a program or a checking command has printed
    server     the HTTP server: keys, limits, retries
    ask        a call in the form that all three protocols share, and the refusals
    chat, responses, anthropic   the three protocols
    calls      calls of tools in the text that a policy wrote
    graph      which earlier call a call goes on from
"""
