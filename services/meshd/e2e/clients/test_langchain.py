"""LangChain's own client: a chat, a stream, and a loop of tool calls that ends with an answer."""
import pytest
from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings

from conftest import SYSTEM, unique


@tool
def lookup_tide(harbour: str) -> str:
    """Height of the tide at a harbour."""
    return f"2.4 m ({len(harbour)} letters)"


@pytest.fixture()
def chat(url, model):
    return ChatOpenAI(base_url=f"{url}/v1", api_key="any", model=model, max_retries=0, timeout=60, max_tokens=256)


def turns(question):
    return [SystemMessage(unique(SYSTEM)), HumanMessage(question)]


def test_invoke_answers_with_usage(chat):
    answer = chat.invoke(turns("Which berth is free?"))
    assert answer.content
    assert answer.usage_metadata["output_tokens"] > 0


def test_stream_adds_up(chat):
    whole = None
    count = 0
    for chunk in chat.stream(turns("Tell me about the wind."), stream_usage=True):
        whole = chunk if whole is None else whole + chunk
        count += 1
    assert count > 1 and whole.content
    assert whole.usage_metadata["output_tokens"] > 0


@pytest.mark.parametrize("streamed", [False, True])
def test_tool_loop_ends_with_an_answer(chat, streamed):
    messages = turns("How high is the water in Brest?")
    asking = chat.bind_tools([lookup_tide], tool_choice="required")
    if streamed:
        asked = None
        for chunk in asking.stream(messages):
            asked = chunk if asked is None else asked + chunk
    else:
        asked = asking.invoke(messages)
    assert [call["name"] for call in asked.tool_calls] == ["lookup_tide"]
    messages.append(asked)
    for call in asked.tool_calls:
        result = lookup_tide.invoke(call)
        assert isinstance(result, ToolMessage) and result.tool_call_id == call["id"]
        messages.append(result)
    answer = chat.bind_tools([lookup_tide], tool_choice="none").invoke(messages)
    assert answer.content and not answer.tool_calls


def test_embeddings_of_token_lists_and_texts(url, model):
    maker = OpenAIEmbeddings(
        base_url=f"{url}/v1", api_key="any", model=model, max_retries=0, check_embedding_ctx_length=False)
    one, two, again = maker.embed_documents(["a boat", "a pier", "a boat"])
    assert one == again != two
