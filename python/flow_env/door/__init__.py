"""Environments that ask: an episode asks the policy, as `program:{"command": [...], "tasks": FILE, ...}` does for any agent program.

Each call of a language model is a turn: the view shows the messages, and the action is the text that the policy sampled. A program's
calls come to an HTTP server of this process. Environments of tools (BFCL, MCP, Harbor) ask from within it.

    serve      requests of flow from standard input, answers to standard output
    world      what is served: tasks, and how an episode begins
    settings   settings, and the file of tasks
    episode    the calls of an episode, what flow sees of them, its end
    graph      which earlier call a call goes on from
    folders    the folders of episodes, and those that a killed door left
    calls      calls of tools in the text that a policy wrote
    ask        a call in the form that all protocols share, and the refusals
    reward     the reward that a program or a checking command has printed
    program    a process with all its children
    forking    processes by forks of one that has imported the program's packages
    zygote     that one
    files      files that a program may have made, and `removal` of its folders
    strict     JSON within the limits of flow's parser
    thoughts   where an answer stops thinking
    forms      the forms of calls by model family, read by `json_calls`, `xml_calls`, `python_calls` and `harmony`
    schema     JSON Schema of tools' arguments
    tools      an episode whose loop is ours: it asks, and carries out calls of tools
    server     the environment of agent programs, an HTTP server: keys, limits, retries
    run        one run of a program
    chat, responses, anthropic   the three protocols
"""
