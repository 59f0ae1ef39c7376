"""Every test drives the running mesh named by KVMESH_URL with an official client, as its users write it."""
import os
import uuid

import pytest
from openai import AsyncOpenAI, OpenAI

SYSTEM = "You are the harbour master's assistant. Answer briefly and name the tide, the wind and the berth. " * 12

TIDE_TOOL = {"type": "function", "function": {
    "name": "lookup_tide", "description": "Height of the tide at a harbour.",
    "parameters": {"type": "object", "properties": {"harbour": {"type": "string"}}, "required": ["harbour"]}}}


def unique(text):
    """A text of which no worker holds any block."""
    return f"{uuid.uuid4()} {text}"


def long_chat(question):
    """A first turn of many blocks that no other test shares."""
    return [{"role": "system", "content": unique(SYSTEM)}, {"role": "user", "content": question}]


def mesh_url():
    base = os.environ.get("KVMESH_URL")
    assert base, "KVMESH_URL must name a running mesh, such as http://127.0.0.1:8080"
    return base


@pytest.fixture(scope="session")
def url():
    return mesh_url()


@pytest.fixture()
def client(url):
    with OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=60) as made:
        yield made


@pytest.fixture()
def async_client(url):
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0, timeout=60)


@pytest.fixture()
def model(client):
    return client.models.list().data[0].id
